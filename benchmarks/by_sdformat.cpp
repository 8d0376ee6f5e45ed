// Models of SDF files as libsdformat reads them: one line for each item of data, for by_sdformat.py.
//
// Poses are in model coordinates, joint axes in joint coordinates.

#include <cstdio>
#include <string>

#include <ignition/math.hh>
#include <sdf/sdf.hh>

using ignition::math::Pose3d;
using ignition::math::Vector3d;

static std::string text;

static void print(const std::string &tag, const std::string &name)
{
    text += "\n" + tag + "\t" + name;
}

static void print_value(double value)
{
    char number[32];
    std::snprintf(number, sizeof number, "\t%.17g", value);
    text += number;
}

static void print_vector(const Vector3d &u)
{
    for (int k = 0; k < 3; k++)
        print_value(u[k]);
}

// Prints the position and the quaternion w, x, y, z.
static void print_pose(const Pose3d &pose)
{
    print_vector(pose.Pos());
    for (double x : {pose.Rot().W(), pose.Rot().X(), pose.Rot().Y(), pose.Rot().Z()})
        print_value(x);
}

static bool failed(const sdf::Errors &errors)
{
    for (const auto &error : errors)
        text += "\nerror\t" + error.Message();
    return !errors.empty();
}

static bool print_link(const sdf::Link &link)
{
    Pose3d pose;
    if (failed(link.SemanticPose().Resolve(pose, "__model__")))
        return false;
    const auto &mass_matrix = link.Inertial().MassMatrix();
    print("link", link.Name());
    print_pose(pose);
    print_value(mass_matrix.Mass());
    print_vector(mass_matrix.DiagonalMoments());
    print_vector(mass_matrix.OffDiagonalMoments()); // xy, xz, yz
    print_pose(link.Inertial().Pose());
    print_value(link.Element()->Get<bool>("gravity", true).first);
    return true;
}

static const char *const TYPES[] = {"invalid",   "ball",     "continuous", "fixed", "gearbox",
                                    "prismatic", "revolute", "revolute2",  "screw", "universal"};

static bool print_joint(const sdf::Joint &joint)
{
    Pose3d pose;
    std::string parent, child;
    if (failed(joint.SemanticPose().Resolve(pose, "__model__")))
        return false;
    if (failed(joint.ResolveParentLink(parent)) || failed(joint.ResolveChildLink(child)))
        return false;
    print("joint", joint.Name());
    text +=
        std::string("\t") + TYPES[static_cast<int>(joint.Type())] + "\t" + parent + "\t" + child;
    print_pose(pose);
    print_value(joint.ThreadPitch());
    for (unsigned k = 0; k < 2 && joint.Axis(k); k++) {
        const sdf::JointAxis &axis = *joint.Axis(k);
        Vector3d xyz;
        if (failed(axis.ResolveXyz(xyz, joint.Name())))
            return false;
        print("axis", joint.Name());
        print_vector(xyz);
        for (double x :
             {axis.Lower(), axis.Upper(), axis.MaxVelocity(), axis.Effort(), axis.Damping(),
              axis.Friction(), axis.SpringStiffness(), axis.SpringReference()})
            print_value(x);
    }
    return true;
}

static bool print_file(const char *path)
{
    sdf::Root root;
    if (failed(root.Load(path)))
        return false;
    const sdf::World *world = root.WorldCount() ? root.WorldByIndex(0) : nullptr;
    const sdf::Model *model = root.Model() ? root.Model()
                              : world      ? world->ModelByIndex(0)
                                           : nullptr;
    Pose3d pose;
    if (!model || failed(model->SemanticPose().Resolve(pose)))
        return false;
    print("model", model->Name());
    print_pose(pose);
    print_value(model->Static());
    if (world) {
        print("gravity", world->Name());
        print_vector(world->Gravity());
    }
    for (size_t k = 0; k < model->LinkCount(); k++)
        if (!print_link(*model->LinkByIndex(k)))
            return false;
    for (size_t k = 0; k < model->JointCount(); k++)
        if (!print_joint(*model->JointByIndex(k)))
            return false;
    return true;
}

// Returns the lines of a file. They contain a line "error" if libsdformat rejects the file.
extern "C" __attribute__((visibility("default"))) const char *read_model(const char *path)
{
    text.clear();
    if (!print_file(path))
        print("error", "");
    return text.c_str();
}
