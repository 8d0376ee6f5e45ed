/* Interface of the generated C: everything that model.h of a block and tables.h of a plant with
   contact must define.

   Other generated headers: structure.h, loops.h and contacts.h (c/algorithms), function.h,
   functions.h and steps.h (c/lanes), fmu.h, events.h, tangent.h and sparsity.h (c/fmi), system.h,
   links.h, parts.h and xcp_plan.h (c/runner). The C file that includes a header lists the
   definitions that the header needs.

   The memory of a block is a vector of RB_SIZE doubles; model.h contains a table of it:

       [t | continuous states | sampled states | inputs | tunable parameters | computed outputs
        | control state of an adaptive method]

   Constants of the block:

       RB_T, RB_X, RB_Z, RB_U, RB_P, RB_Y    start of each part in the memory
       RB_NX, RB_NZ, RB_NU, RB_NP, RB_NY     number of elements of each part
       RB_S, RB_NS                           the same for the control state
       RB_START[RB_SIZE]                     memory before a run
       RB_SAMPLE_TIME                        sample time [s]; 0 if the block has none
       RB_INNER_STEP                         largest step of the integrator [s]
       RB_LARGE                              1 if workspaces are not on the stack (workspace.h)
       RB_PROJECTS                           1 if the states are projected onto constraints
       RB_MARGINS                            number of switching functions, for adaptive methods

   Constants of the integrator, 1 or 0:

       RB_ADAPTIVE                           the step size is controlled
       RB_EXPLICIT                           there is an explicit method
       RB_IMPLICIT                           a method needs a Jacobian
       RB_LINEARLY_IMPLICIT, RB_COLLOCATION  the method is a Rosenbrock or a collocation method
       RB_EXACT_SLOPES                       the Jacobian is exact (rate_slopes), not a difference

   Explicit method with RB_STAGES stages; the last row of each matrix is b:

       RB_A, RB_C, RB_ERROR                  Butcher tableau, weights of the error estimate
       RB_POSITION[RB_NX + 1]                1 for states with the tableau RB_A_POSITION

   Rosenbrock method with RB_IMPLICIT_STAGES stages (integrators.h):

       RB_GAMMA, RB_IMPLICIT_A, RB_IMPLICIT_C, RB_COUPLING, RB_TIME

   Collocation method (collocation.h; block/radau.py gives the reasons):

       RB_COLLOCATION_A, RB_NODE_TIMES       Butcher tableau
       RB_NODE_ERROR                         weights of the error estimate
       RB_ROOTS, RB_THERE, RB_BACK           eigenvalues of A, transformations to its eigenvectors
       RB_MOST_NEWTON                        largest number of Newton iterations
       RB_NEWTON_CLOSE, RB_LOOSE             error of the stages at which Newton's method stops, and
                                             that is accepted if it converges no more [tolerances]
       RB_CONTRACTION                        contraction rate that bounds the next step size
       RB_REACH                              ratio of step sizes up to which stages are extrapolated
       RB_SLOPES_AT                          fraction of the step at which the Jacobian is evaluated
       RB_START_PART                         largest relative change of a state in the first step

   Adaptive methods (block/adaptive_methods.py gives the reasons):

       RB_RTOL, RB_ATOL[RB_NX + 1]           relative and absolute tolerances
       RB_USUAL[RB_NX + 1]                   nominal values of the states
       RB_STABLE                             h |lambda| above which stability limits explicit steps
       RB_ENOUGH_SIGNS                       votes that change the method
       RB_MOST_PATIENCE                      largest additional factor of the votes
       RB_DEARNESS                           explicit steps that cost as much as a Rosenbrock step
       RB_SCREEN_PAUSE                       steps without an RK4 screen after a failed one
       RB_MAX_INNER_STEPS                    bound of the inner steps of a step; 0: no bound
       RB_MOST_TRIES, RB_TEST_TRIES          trials of a step; trials that must cover 1 % of it
       RB_PRICE_OF_SLOPES, RB_PRICE_OF_FACTORS, RB_PRICE_OF_NEWTON, RB_PRICE_OF_ROSENBROCK
                                             cost of a Jacobian, of a factorization, of a Newton
                                             iteration and of a Rosenbrock step [evaluations]
       RB_WINDOW                             cost of the steps that are compared [evaluations]
       RB_FIRST_TRUST, RB_MOST_TRUST         windows until the other implicit method is tried again

   Functions read the memory and write a separate vector. The declarations below let the compiler
   check a model.h.

   ---- tables.h: only for plants with contact, before all headers of c/contact ----

   Static geometry has the body index RB_BODIES and the link index RB_LINKS. A pose is a rotation
   matrix by rows (9) and a position (3).

   Bodies and shapes (broad_phase.h):

     RB_BODIES                            number of bodies
     RB_MASS, RB_CENTRE, RB_INERTIA       mass [kg], centre of mass (3) [m], inertia about it (9)
     RB_INVERSE_INERTIA                   inverse of the inertia (9), 0 if the inertia is singular
     RB_ISOTROPIC                         1 if the inertia is a multiple of the identity
     RB_FREE                              1 for free bodies, 0 for links of trees
     RB_Q_AT, RB_QD_AT                    index of the first variable of a body in q and in qd
     RB_APARTS, RB_APART                  excluded pairs, sorted: a (RB_BODIES + 1) + b with a < b
     RB_SHAPES                            number of shapes
     RB_KINDS_PRESENT                     bits of the kinds of shapes that occur (shapes.h)
     RB_SHAPE_TABLE, RB_SHAPE_AT          rows of shapes.h, and the start of each row
     RB_SHAPE_BODY, RB_SHAPE_POSE         body of a shape, pose about the centre of mass
     RB_SHAPE_REACH                       radius of a shape about the centre of mass [m]
     RB_CONTACTS, RB_PAIRS                largest numbers of contacts and of pairs of shapes

   Trees (articulated_trees.h); parents come before their children:

     RB_LINKS                             number of links
     RB_LINK_BODY, RB_LINK_PARENT         body of a link, parent link
     RB_LINK_JOINT, RB_LINK_FRAME         joint type, pose of the joint on the parent
     RB_LINK_TURNED                       1 if the rotation of that pose is not the identity
     RB_LINK_DOF, RB_LINK_DOFS            first degree of freedom of a link, and their number
     RB_DOFS                              number of degrees of freedom
     RB_DOF_LINK, RB_DOF_Q, RB_DOF_QD     link of a degree of freedom, its indices in q and in qd
     RB_DOF_COLUMN                        its column of the motion subspace S (6)
     RB_DOF_PARENT, RB_DOF_DEPTH          parent on its path (-1: none), number of ancestors
     RB_DOF_ROW, RB_PATH                  start of its row of H; indices on its path, itself first
     RB_DOF_FIRST, RB_DOF_COUNT           first degree of freedom of its tree, and their number
     RB_DOF_ARMATURE, RB_DOF_DAMPING      rotor inertia, damping
     RB_DOF_STIFFNESS, RB_DOF_REST        spring stiffness, rest position
     RB_ROWS                              total length of the rows of H
     RB_DEPTH, RB_SPAN                    largest depth and size of the largest tree, at least 1
     RB_LEAF                              last degree of freedom that moves a body; -1: free body

   Loop joints (articulated_trees.h):

     RB_CLOSURES                          number of loop joints
     RB_LOOP_BODY, RB_LOOP_FRAME          bodies of both frames, poses about the centres of mass
     RB_LOOP_TURN, RB_LOOP_AXIS           free rotation: 0 none, 1 about the axis (3, in both
                                          frames), 2 all
     RB_LOOP_ROWS, RB_LOOP_ROW            constraint rows: directions of angle and displacement in
                                          the first frame (3 + 3)
     RB_ROW_LOOP                          loop joint of a constraint row
     RB_POSITIONS                         length of q

   Joint stops and dry joint friction (contact_detection.h):

     RB_STOPS                             number of stops
     RB_STOP_DOF, RB_STOP_Q               degree of freedom, its index in q
     RB_STOP_LOW, RB_STOP_HIGH            limits of the joint [rad or m]
     RB_STOP_MOST                         largest force [N m or N]; from RB_UNBOUNDED on a stop

   Materials (contact_detection.h, compliant_forces.h):

     RB_SHAPE_MATERIAL                    material of a shape; 0 for the default
     RB_MATERIALS                         number of materials
     RB_NAMED_PAIRS, RB_NAMED_PAIR        pairs with own parameters: RB_MATERIALS a + b with a < b;
                                          their parameters follow the parameters of the materials

   Sensors (sensors.h):

     RB_SENSORS, RB_SENSOR_AT             number of contact sensors, place of their outputs
     RB_SENSOR_SIDE                       for each sensor and shape: 1 first side, -1 second side, 0
     RB_NEARS, RB_NEAR_AT                 number of distance sensors, place of their outputs
     RB_NEAR_FIRST, RB_NEAR_SHAPE         for each sensor: first shape of one side, first shape of
                                          the other side, end; the shapes

   Step of rigid contact (time_step.h):

     RB_LARGE_SCENE                       1 if workspaces are not on the stack (workspace.h)
     RB_SCENE_STEP                        step size [s]
     RB_SCENE_SWEEPS                      largest number of Gauss-Seidel sweeps of a step
     RB_SCENE_TOLERANCE                   tolerance of velocities, relative to the largest speed
     RB_MOVING_TOLERANCE                  tolerance after many sweeps, relative to the speeds before
                                          the step
     RB_CONTACT_ROWS                      3, or 6 with torsional or rolling friction
     RB_POISSON                           1 for Poisson's law of restitution, 0 for Newton's law
     RB_ARGUMENTS, RB_GATHER, RB_GIVEN    parameters of contact_step; statements that collect them;
                                          initializers of struct rb_step_inputs

   Places of the sampled states of this step:

     RB_AT_Q, RB_AT_QD                    positions and velocities
     RB_AT_F_CONTACT                      contact wrench on each body, [n; f] about the origin
     RB_AT_IN_CONTACT                     1 for bodies in contact
     RB_AT_CENTRE_OF_PRESSURE             mean contact point of each body [m]
     RB_AT_CONTACTS, RB_AT_LEFT_OUT       contacts stored, and contacts that did not fit
     RB_AT_RESIDUAL, RB_AT_SWEEPS_MADE    residual [m/s] and number of sweeps of the solver
     RB_AT_DEPTH, RB_AT_LOOP_ERROR        largest overlap [m], largest loop closure error [rad or m]
     RB_AT_STEPS                          number of steps
     RB_AT_KEY, RB_AT_IMPULSE             keys of the contacts, their impulses in base coordinates
     RB_AT_STICKS                         1 for sticking contacts
     RB_AT_STOP_IMPULSE                   impulses of the joint stops

   Compliant contact (compliant_forces.h) needs, instead of bodies and trees:

     RB_SOFT_BODIES, RB_SOFT_MASS         number of bodies, and their masses [kg]
     RB_POLY_TABLE, RB_SHAPE_POLY         rows of polytopes, and the start of each (-1: none)
     RB_SOFT_PAIRS, RB_SOFT_PAIR          pairs of shapes, static shapes last
     RB_SAYS_K, RB_SAYS_D                 1 if a material has a stiffness or a damping
     RB_FRICTION                          1 if there is friction
     RB_OWN_PATCH, RB_OWN_DAMPER          1 if K_t and D_t are given
     RB_DEPTH_REF                         reference depth of Hertzian springs [m]; 0 for linear ones
     RB_DISSIPATION                       dissipation of the contact law [s/m]
     RB_FELT_ALL                          total number of sensor outputs

   The body of a static shape is then RB_SOFT_BODIES, and poses of shapes are in their bodies. */

#ifndef RB_MODEL_INTERFACE_H
#define RB_MODEL_INTERFACE_H

#include "model.h"

/* Keep long functions with loops out of line, so that they are compiled only once. */
#if defined(__GNUC__)
#define RB_NOT_INLINED __attribute__((noinline, unused))
#else
#define RB_NOT_INLINED
#endif

/* Compute the RB_NX derivatives of the continuous states. */
static inline void derivative(const double *in, double *out);

/* Compute the RB_NZ sampled states at the start of a run. */
static inline void initial(const double *in, double *out);

/* Compute the RB_NZ sampled states after a sample. */
static inline void update(const double *in, double *out);

/* Compute the RB_NY computed outputs. */
static inline void output(const double *in, double *out);

#if RB_PROJECTS
/* Compute the RB_NX continuous states after the projection. */
static inline void project(const double *in, double *out);
#endif

#ifdef RB_MARGINS
/* Compute the RB_MARGINS switching functions. */
static inline void margins(const double *in, double *out);
#endif

#if RB_EXACT_SLOPES
/* Compute the Jacobian of the derivatives with respect to the continuous states by rows, then the
   RB_NX derivatives with respect to time. */
static inline void rate_slopes(const double *in, double *out);
#endif

#endif
