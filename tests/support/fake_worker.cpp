// SPDX-License-Identifier: Apache-2.0
// Stands in for `kernelforge-worker --role measure` in tests: does what the lines of a script say.
//   kernelforge_fake_worker --role measure --script FOLDER
// FOLDER/devices has a line for each `devices` request, FOLDER/work one for each other request,
// counted over all processes that were started with that folder (FOLDER/*.position). A line that is
// missing means `ok`. FOLDER/starts gets a line with the process id for each start. Lines:
//   ok | status NAME | print BYTES | say TEXT | die SIGNAL | exit CODE | hang | garbage | cut |
//   close | error CODE | wrong_type | wrong_id | none | other | deaf |
//   allocate MEBIBYTES
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "base/json_text.hpp"
#include "wire/channel.hpp"
#include "wire/codec.hpp"

using namespace kernelforge;

namespace {

std::string folder;

std::string next_line(const std::string& list) {
    int position = 0;
    std::ifstream(folder + "/" + list + ".position") >> position;
    std::ofstream(folder + "/" + list + ".position") << position + 1;
    std::ifstream lines(folder + "/" + list);
    std::string line;
    for (int i = 0; i <= position; ++i) {
        if (!std::getline(lines, line)) return "ok";
    }
    return line;
}

DeviceInfo device(int index) {
    DeviceInfo info;
    info.index = index;
    info.name = "Fake";
    info.uuid = "GPU-0000-" + std::to_string(index);
    info.driver_version = 13000;
    info.multiprocessors = 4;
    return info;
}

Json devices(const std::string& word) {
    Json list = Json::array();
    if (word == "none") return list;
    if (word == "other") {
        list.push_back(wire::encode(device(7)));
        return list;
    }
    for (const int index : {0, 1}) list.push_back(wire::encode(device(index)));
    return list;
}

std::string evaluation(const JsonNode& body, EvaluationStatus status) {
    const auto request = wire::decode<EvaluationRequest>(body);
    Evaluation evaluation;
    evaluation.id = request.id;
    evaluation.status = status;
    if (status != EvaluationStatus::ok) evaluation.message = "as the script says";
    evaluation.device = "Fake";
    for (const std::size_t workload : request.workloads) {
        WorkloadResult result;
        result.workload = workload;
        result.status = status;
        evaluation.workloads.push_back(result);
    }
    for (std::size_t i = 0; i < request.hidden.size(); ++i) {
        HiddenResult result;
        result.hidden = i;
        result.status = status;
        evaluation.hidden.push_back(result);
    }
    return wire::message("evaluation", wire::encode(evaluation));
}

std::string answer_to(const std::string& type, const JsonNode& root, const std::string& word) {
    if (type == "devices") return wire::message("devices", devices(word));
    if (type == "collect") return wire::message("profile", wire::encode(ProfileData{}));
    if (type == "roofs") {
        Roofs roofs;
        roofs.read_bytes_per_s =
            4.5e12 + static_cast<double>(root.at("body").at("device").as_integer());
        return wire::message("roofs", wire::encode(roofs));
    }
    return evaluation(root.at("body"), EvaluationStatus::ok);
}

/// Answers, or does not.
void act(wire::Channel& channel, const std::string& request) {
    const JsonDocument document(request, "request");
    const JsonNode root = document.root();
    const std::string type = root.at("type").as_string();
    std::istringstream line(next_line(type == "devices" ? "devices" : "work"));
    std::string word;
    std::string rest;
    line >> word;
    std::getline(line >> std::ws, rest);

    if (word == "die") {
        std::cerr << "first line\nabout to die\n" << std::flush;
        const int number = std::atoi(rest.c_str());
        std::signal(number, SIG_DFL);  // a sanitizer has a handler of its own
        ::raise(number);
    }
    if (word == "exit") {
        std::cerr << "giving up\n" << std::flush;
        ::_exit(std::atoi(rest.c_str()));
    }
    if (word == "hang") ::pause();
    if (word == "allocate") {
        // What cannot be had ends this process by the handler in main.
        const std::string memory(std::stoull(rest) << 20U, 'x');
        std::cout << memory.substr(0, 1) << std::flush;
    }
    if (word == "close") {
        ::shutdown(3, SHUT_RDWR);
        ::pause();
    }
    if (word == "garbage") {
        [[maybe_unused]] const ssize_t n = ::write(3, "this is no message at all", 25);
        ::pause();
    }
    const std::string answer = answer_to(type, root, word);
    if (word == "cut") {
        const std::string start("KFW1\x40\x00\x00\x00\x00\x00\x00\x00{\"type\"", 19);
        [[maybe_unused]] const ssize_t n = ::write(3, start.data(), start.size());
        ::_exit(9);
    }
    if (word == "print") {
        const std::string block(1 << 20, 'x');
        for (long left = std::atol(rest.c_str()); left > 0; left -= 1 << 20) std::cout << block;
        std::cout << std::flush;
    }
    if (word == "say") std::cout << rest << std::flush;
    if (word == "error") {
        channel.send(
            wire::message("error", Json{{"code", rest}, {"message", "as the script says"}}));
    } else if (word == "status") {
        EvaluationStatus status = EvaluationStatus::ok;
        while (to_string(status) != rest)
            status = static_cast<EvaluationStatus>(static_cast<int>(status) + 1);
        channel.send(evaluation(root.at("body"), status));
    } else if (word == "wrong_type") {
        channel.send(wire::message("surprise", Json::object()));
    } else if (word == "wrong_id") {
        Json changed = root.at("body").json();
        changed["id"] = "another";
        const JsonDocument other(wire::message("evaluate", changed), "request");
        channel.send(evaluation(other.root().at("body"), EvaluationStatus::ok));
    } else {
        channel.send(answer);
    }
    if (word == "deaf") ::pause();
}

}  // namespace

int main(int argc, char** argv) {
    for (int i = 1; i + 1 < argc; ++i) {
        if (std::string(argv[i]) == "--script") folder = argv[i + 1];
    }
    if (folder.empty()) return 2;
    std::ofstream(folder + "/starts", std::ios::app) << ::getpid() << "\n";
    wire::Channel channel(3);
    try {
        for (;;) {
            const auto received = channel.receive(std::chrono::steady_clock::time_point::max());
            if (received.outcome == wire::Channel::Outcome::closed) return 0;
            act(channel, received.message);
        }
    } catch (const std::exception& error) {
        std::cerr << "fake worker: " << error.what() << "\n";
        return 3;
    }
}
