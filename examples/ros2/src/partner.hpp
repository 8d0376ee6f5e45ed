// Communication partner of the UDP link of a runner, without ROS: receives the signals of the runner and sends commands.

#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "packet.h"

class Partner {
public:
    // Listen for packets of n values at a port of this machine; the port belongs to the `peer` address of the link.
    Partner(int port, std::size_t n) : values(n, 0.0), next_(n, 0.0), bytes_(RB_PACKET_HEADER + 8 * 8000 + 1)
    {
        socket_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        sockaddr_in own{};
        own.sin_family = AF_INET;
        own.sin_port = htons(static_cast<std::uint16_t>(port));
        own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (socket_ < 0 || ::bind(socket_, reinterpret_cast<sockaddr *>(&own), sizeof own) != 0) {
            const int why = errno;
            if (socket_ >= 0)
                ::close(socket_);
            throw std::system_error(why, std::generic_category(), "the partner cannot listen at " + std::to_string(port));
        }
    }

    ~Partner() { ::close(socket_); }
    Partner(const Partner &) = delete;
    Partner &operator=(const Partner &) = delete;

    // Receive the newest packet, and wait at most `milliseconds` for it; return true if a packet has arrived.
    bool receive(int milliseconds)
    {
        bool came = false;
        pollfd ready{socket_, POLLIN, 0};
        for (int left = milliseconds; ::poll(&ready, 1, left) > 0; left = 0)
            came = take() || came;
        return came;
    }

    // Answer the last received packet; return false if no packet has arrived yet or if sending fails.
    bool send(const std::vector<double> &commands)
    {
        if (last_ == 0)
            return false;
        sequence_ += sequence_ == UINT32_MAX ? 2 : 1;
        const RbPacket packet = {sequence_, last_, time};
        const std::size_t size = rb_packet_write(bytes_.data(), &packet, commands.data(), static_cast<int>(commands.size()));
        const auto *to = reinterpret_cast<const sockaddr *>(&peer_);
        return ::sendto(socket_, bytes_.data(), size, MSG_DONTWAIT, to, sizeof peer_) == static_cast<ssize_t>(size);
    }

    std::vector<double> values; // of the last packet
    double time = 0.0;          // simulation time of the last packet [s]

private:
    // Receive one datagram; return true if it is a valid packet that is newer than the last, or the first of a new run.
    bool take()
    {
        sockaddr_in from{};
        socklen_t length = sizeof from;
        const ssize_t size = ::recvfrom(
            socket_, bytes_.data(), bytes_.size(), MSG_DONTWAIT, reinterpret_cast<sockaddr *>(&from), &length);
        RbPacket packet{};
        if (size < 0 || rb_packet_read(bytes_.data(), static_cast<std::size_t>(size), &packet, next_.data(),
                            static_cast<int>(next_.size())) != RB_PACKET_OK)
            return false;
        const std::uint32_t ahead = packet.sequence - last_;
        if (last_ && packet.sequence != 1 && (ahead == 0 || ahead > UINT32_MAX / 2))
            return false;
        last_ = packet.sequence;
        time = packet.time;
        peer_ = from;
        values.swap(next_);
        return true;
    }

    int socket_ = -1;
    sockaddr_in peer_{};
    std::uint32_t sequence_ = 0, last_ = 0;
    std::vector<double> next_;
    std::vector<std::uint8_t> bytes_;
};
