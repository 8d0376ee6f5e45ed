// Hardware interface of ros2_control for a runner: receives positions and velocities by UDP and
// sends efforts.
//
// The link of the runner sends q and qd and receives tau. Each signal has one value per joint, in
// the order of the joints in the URDF:
//
//     UdpLink(send=[q, qd], receive=[tau], peer="127.0.0.1:5005", listen="127.0.0.1:5006")
//
// Parameters in the element <hardware> of the URDF: `port` (default 5005) is the port of the link's
// `peer`. `wait_ms` (default 0) is the longest time that a read waits for the runner. With
// lock_step=True, the simulation then determines the rate of the control loop.

#include <memory>
#include <string>
#include <vector>

#include "hardware_interface/handle.hpp"
#include "hardware_interface/hardware_info.hpp"
#include "hardware_interface/system_interface.hpp"
#include "hardware_interface/types/hardware_interface_return_values.hpp"
#include "hardware_interface/types/hardware_interface_type_values.hpp"
#include "partner.hpp"
#include "pluginlib/class_list_macros.hpp"
#include "rclcpp_lifecycle/state.hpp"

namespace rigidblocks_hardware
{
using hardware_interface::CallbackReturn;
using hardware_interface::return_type;

class RunnerSystem : public hardware_interface::SystemInterface
{
  public:
    CallbackReturn on_init(const hardware_interface::HardwareInfo &info) override
    {
        if (hardware_interface::SystemInterface::on_init(info) != CallbackReturn::SUCCESS)
            return CallbackReturn::ERROR;
        joints_ = info_.joints.size();
        states_.assign(2 * joints_, 0.0);
        efforts_.assign(joints_, 0.0);
        port_ = number("port", 5005);
        wait_ms_ = number("wait_ms", 0);
        return CallbackReturn::SUCCESS;
    }

    std::vector<hardware_interface::StateInterface> export_state_interfaces() override
    {
        std::vector<hardware_interface::StateInterface> found;
        for (std::size_t k = 0; k < joints_; k++) {
            const auto &name = info_.joints[k].name;
            found.emplace_back(name, hardware_interface::HW_IF_POSITION, &states_[k]);
            found.emplace_back(name, hardware_interface::HW_IF_VELOCITY, &states_[joints_ + k]);
        }
        return found;
    }

    std::vector<hardware_interface::CommandInterface> export_command_interfaces() override
    {
        std::vector<hardware_interface::CommandInterface> found;
        for (std::size_t k = 0; k < joints_; k++)
            found.emplace_back(info_.joints[k].name, hardware_interface::HW_IF_EFFORT,
                               &efforts_[k]);
        return found;
    }

    CallbackReturn on_activate(const rclcpp_lifecycle::State &) override
    {
        efforts_.assign(joints_, 0.0);
        try {
            partner_ = std::make_unique<Partner>(port_, 2 * joints_);
        } catch (const std::exception &) {
            return CallbackReturn::ERROR;
        }
        return CallbackReturn::SUCCESS;
    }

    // The runner then receives no packets. After the timeout of the link, its inputs have their
    // safe values.
    CallbackReturn on_deactivate(const rclcpp_lifecycle::State &) override
    {
        partner_.reset();
        return CallbackReturn::SUCCESS;
    }

    return_type read(const rclcpp::Time &, const rclcpp::Duration &) override
    {
        if (partner_ && partner_->receive(wait_ms_))
            states_ = partner_->values; // keeps the size, because interfaces point to the elements
        return return_type::OK;
    }

    return_type write(const rclcpp::Time &, const rclcpp::Duration &) override
    {
        if (partner_)
            (void)partner_->send(efforts_); // the runner counts lost packets
        return return_type::OK;
    }

  private:
    int number(const std::string &name, int otherwise) const
    {
        const auto found = info_.hardware_parameters.find(name);
        return found == info_.hardware_parameters.end() ? otherwise : std::stoi(found->second);
    }

    std::size_t joints_ = 0;
    int port_ = 0, wait_ms_ = 0;
    std::vector<double> states_, efforts_;
    std::unique_ptr<Partner> partner_;
};
} // namespace rigidblocks_hardware

PLUGINLIB_EXPORT_CLASS(rigidblocks_hardware::RunnerSystem, hardware_interface::SystemInterface)
