/* Pinocchio's algorithms, called from C++ in loops without Python, for models that its Python
   module has made (in_cpp.py). */
#include <boost/python.hpp>

#include <algorithm>

#include <pinocchio/algorithm/aba-derivatives.hpp>
#include <pinocchio/algorithm/aba.hpp>
#include <pinocchio/algorithm/constrained-dynamics-derivatives.hpp>
#include <pinocchio/algorithm/constrained-dynamics.hpp>
#include <pinocchio/algorithm/crba.hpp>
#include <pinocchio/algorithm/rnea-derivatives.hpp>
#include <pinocchio/algorithm/rnea-second-order-derivatives.hpp>
#include <pinocchio/algorithm/rnea.hpp>

namespace pin = pinocchio;
using Constraints = std::vector<pin::RigidConstraintModel>;
using Matrix = pin::Data::RowMatrixXs;

enum Algorithm { RNEA, CRBA, ABA, D_RNEA, D_ABA, DD_RNEA, CONSTRAINED, D_CONSTRAINED };

struct Peer {
    pin::Model model;
    pin::Data data;
    Constraints constraints;
    std::vector<pin::RigidConstraintData> of_constraints;
    pin::ProximalSettings settings;
    pin::Convention convention;
    Eigen::VectorXd q, v, w; /* w: accelerations or forces, depending on the algorithm */

    Peer(const pin::Model &model, const Constraints &constraints, double mu, int iterations)
        : model(model), data(model), constraints(constraints), settings(1e-12, mu, iterations),
          convention(pin::Convention::LOCAL), q(model.nq), v(model.nv), w(model.nv)
    {
        for (const auto &one : constraints)
            of_constraints.emplace_back(one);
        pin::initConstraintDynamics(model, data, this->constraints, of_constraints);
    }

    void call(int algorithm)
    {
        switch (algorithm) {
        case RNEA: pin::rnea(model, data, q, v, w); break;
        case CRBA: pin::crba(model, data, q, convention); break;
        case ABA: pin::aba(model, data, q, v, w, convention); break;
        case D_RNEA: /* adds to the matrices, which this overload first sets to zero */
            pin::computeRNEADerivatives(model, data, q, v, w);
            break;
        case D_ABA: pin::computeABADerivatives(model, data, q, v, w); break;
        case DD_RNEA: pin::ComputeRNEASecondOrderDerivatives(model, data, q, v, w); break;
        default:
            pin::constraintDynamics(model, data, q, v, w, constraints, of_constraints, settings);
            if (algorithm == D_CONSTRAINED)
                pin::computeConstraintDynamicsDerivatives(model, data, constraints, of_constraints,
                                                          settings);
        }
    }
};

static double *copied(const Eigen::Ref<const Matrix> &from, double *to)
{
    Eigen::Map<Matrix>(to, from.rows(), from.cols()) = from;
    return to + from.size();
}

/* Copy a tensor [i][j][k] in row-major order; `turned` exchanges the last two indices. */
static double *copied(const pin::Data::Tensor3x &from, bool turned, double *to)
{
    const Eigen::Index n = from.dimension(0);
    for (Eigen::Index i = 0; i < n; i++)
        for (Eigen::Index j = 0; j < n; j++)
            for (Eigen::Index k = 0; k < n; k++)
                *to++ = turned ? from(i, k, j) : from(i, j, k);
    return to;
}

/* Copy the second derivatives of the joint forces with respect to (q, q), (q, v), (acceleration, q)
   and (v, v). In Pinocchio's tensor for q and the accelerations, q is the last index. */
static void copy_tensors(const pin::Data &data, double *out)
{
    out = copied(data.d2tau_dqdq, false, out);
    out = copied(data.d2tau_dqdv, false, out);
    out = copied(data.d2tau_dadq, true, out);
    copied(data.d2tau_dvdv, false, out);
}

extern "C" __attribute__((visibility("default"))) Peer *
make_peer(PyObject *model, PyObject *constraints, double mu, int iterations)
{
    using boost::python::extract;
    return new Peer(extract<pin::Model &>(model), extract<Constraints &>(constraints), mu,
                    iterations);
}

extern "C" __attribute__((visibility("default"))) void free_peer(Peer *self)
{
    delete self;
}

/* Set the state, and whether the algorithms use body coordinates or world coordinates. */
extern "C" __attribute__((visibility("default"))) void
set_state(Peer *self, const double *q, const double *v, const double *w, int in_world)
{
    std::copy_n(q, self->model.nq, self->q.data());
    std::copy_n(v, self->model.nv, self->v.data());
    std::copy_n(w, self->model.nv, self->w.data());
    self->convention = in_world ? pin::Convention::WORLD : pin::Convention::LOCAL;
}

extern "C" __attribute__((visibility("default"))) void repeat_peer(Peer *self, int algorithm,
                                                                   long calls)
{
    for (long k = 0; k < calls; k++)
        self->call(algorithm);
}

/* Copy the results of the last call in row-major order: a vector (nv,), a matrix (nv, nv), or a
   vector and three matrices; for second derivatives, four tensors (nv, nv, nv). */
extern "C" __attribute__((visibility("default"))) void answer(const Peer *self, int algorithm,
                                                              double *out)
{
    const auto &data = self->data;
    if (algorithm == DD_RNEA) {
        copy_tensors(data, out);
        return;
    }
    switch (algorithm) {
    case RNEA:
    case D_RNEA: out = copied(data.tau, out); break;
    case CRBA: out = copied(data.M, out); break;
    default: out = copied(data.ddq, out);
    }
    if (algorithm == D_RNEA)
        copied(data.M, copied(data.dtau_dv, copied(data.dtau_dq, out)));
    if (algorithm == D_ABA)
        copied(data.Minv, copied(data.ddq_dv, copied(data.ddq_dq, out)));
    if (algorithm == D_CONSTRAINED)
        copied(data.ddq_dtau, copied(data.ddq_dv, copied(data.ddq_dq, out)));
}

/* Call a compiled function of the library `calls` times. */
extern "C" __attribute__((visibility("default"))) void
repeat_ours(void (*call)(const double *, double *, double *), const double *in, double *work,
            double *out, long calls)
{
    for (long k = 0; k < calls; k++)
        call(in, work, out);
}
