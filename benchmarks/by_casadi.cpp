/* Pinocchio's algorithms evaluated with CasADi symbols; CasADi generates C code from them
   (by_casadi.py). */
#include <pinocchio/autodiff/casadi.hpp>

#include <boost/python.hpp>

#include <pinocchio/algorithm/aba.hpp>
#include <pinocchio/algorithm/crba.hpp>
#include <pinocchio/algorithm/rnea.hpp>
#include <pinocchio/multibody.hpp>

using casadi::SX;
using Model = pinocchio::ModelTpl<SX>;
using Data = pinocchio::DataTpl<SX>;
using Vector = Eigen::Matrix<SX, Eigen::Dynamic, 1>;

static Vector elements(const SX &symbols)
{
    Vector vector(symbols.rows());
    for (int k = 0; k < symbols.rows(); k++)
        vector(k) = symbols(k);
    return vector;
}

template <typename Matrix> static SX expression(const Matrix &matrix)
{
    SX result(matrix.rows(), matrix.cols());
    for (int i = 0; i < matrix.rows(); i++)
        for (int k = 0; k < matrix.cols(); k++)
            result(i, k) = matrix(i, k);
    return result;
}

/* Write the C code of rnea, crba (the upper triangle) and aba for a model of the Python module to a
   file in the current folder. */
extern "C" __attribute__((visibility("default"))) void write_code(PyObject *python,
                                                                  const char *file)
{
    const pinocchio::Model &numbers = boost::python::extract<const pinocchio::Model &>(python);
    Model model = numbers.cast<SX>();
    SX q = SX::sym("q", model.nq), v = SX::sym("v", model.nv), w = SX::sym("w", model.nv);
    Vector eq = elements(q), ev = elements(v), ew = elements(w);
    casadi::CodeGenerator code(file);
    {
        Data data(model);
        code.add(casadi::Function("rnea", {q, v, w},
                                  {expression(pinocchio::rnea(model, data, eq, ev, ew))}));
    }
    {
        Data data(model);
        pinocchio::crba(model, data, eq, pinocchio::Convention::LOCAL);
        code.add(casadi::Function("crba", {q, v, w}, {SX::densify(SX::triu(expression(data.M)))}));
    }
    {
        Data data(model);
        code.add(casadi::Function(
            "aba", {q, v, w},
            {expression(pinocchio::aba(model, data, eq, ev, ew, pinocchio::Convention::LOCAL))}));
    }
    code.generate();
}
