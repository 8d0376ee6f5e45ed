/* RBDL's algorithms, called from C++ in loops without Python (by_rbdl.py). RBDL and this file are
   compiled as one unit. */
#include <Constraints.cc>
#include <Dynamics.cc>
#include <Joint.cc>
#include <Kinematics.cc>
#include <Logging.cc>
#include <Model.cc>
#include <rbdl_mathutils.cc>

#include <algorithm>

#define API extern "C" __attribute__((visibility("default")))

enum Algorithm { RNEA, CRBA, ABA, DIRECT, RANGE_SPACE, NULL_SPACE };

struct Peer {
    Model model;
    ConstraintSet loops;
    VectorNd q, v, w, result; /* w: accelerations or forces, depending on the algorithm */
    MatrixNd H;

    void call(int algorithm)
    {
        switch (algorithm) {
        case RNEA: InverseDynamics(model, q, v, w, result); break;
        case CRBA: CompositeRigidBodyAlgorithm(model, q, H); break;
        case ABA: ForwardDynamics(model, q, v, w, result); break;
        case DIRECT: ForwardDynamicsConstraintsDirect(model, q, v, w, loops, result); break;
        case RANGE_SPACE:
            ForwardDynamicsConstraintsRangeSpaceSparse(model, q, v, w, loops, result);
            break;
        case NULL_SPACE: ForwardDynamicsConstraintsNullSpace(model, q, v, w, loops, result);
        }
    }
};

static Matrix3d matrix(const double *rows)
{
    return Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>>(rows);
}

static Vector3d vector(const double *x)
{
    return Vector3d(x[0], x[1], x[2]);
}

API Peer *make_peer(const double *gravity)
{
    auto *self = new Peer;
    self->model.gravity = vector(gravity);
    return self;
}

API void free_peer(Peer *self)
{
    delete self;
}

/* Add a body on a revolute joint about z. E and r are the pose of the joint frame in the parent's
   frame (parent 0 is the base); c is the centre of mass, and I the inertia about it. */
API void add_body(Peer *self, unsigned parent, const double *E, const double *r, double m,
                  const double *c, const double *I)
{
    self->model.AddBody(parent, SpatialTransform(matrix(E), vector(r)), Joint(JointTypeRevoluteZ),
                        Body(m, vector(c), matrix(I)));
}

/* Constrain points of two bodies to coincide in the xy plane. */
API void add_pin(Peer *self, unsigned predecessor, unsigned successor, const double *p,
                 const double *s)
{
    for (int axis = 3; axis < 5; axis++)
        self->loops.AddLoopConstraint(predecessor, successor, Xtrans(vector(p)), Xtrans(vector(s)),
                                      SpatialVector::Unit(axis));
}

API void set_state(Peer *self, const double *q, const double *v, const double *w)
{
    int n = self->model.dof_count;
    self->q = Eigen::Map<const VectorNd>(q, n);
    self->v = Eigen::Map<const VectorNd>(v, n);
    self->w = Eigen::Map<const VectorNd>(w, n);
    self->result = VectorNd::Zero(n);
    self->H = MatrixNd::Zero(n, n);
    self->loops.linear_solver = LinearSolverPartialPivLU; /* faster than its default */
    self->loops.Bind(self->model);
}

API void repeat_peer(Peer *self, int algorithm, long calls)
{
    for (long k = 0; k < calls; k++)
        self->call(algorithm);
}

/* Copy the result of the last call: (nv,), or the symmetric matrix (nv, nv). */
API void answer(const Peer *self, int algorithm, double *out)
{
    if (algorithm == CRBA)
        std::copy_n(self->H.data(), self->H.size(), out);
    else
        std::copy_n(self->result.data(), self->result.size(), out);
}
