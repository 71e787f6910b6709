#pragma once
// Finds out why this process sees no NVIDIA GPU. The driver's library says only "no device", whether there
// is no driver, or a unit or container hides the files of its devices.
#include <filesystem>
#include <string>

namespace troupe::deploy {

// Returns what is missing and how to get it; "" if the files of the driver are there and can be opened.
// `root` is the folder of /proc and /dev: another one in tests.
std::string why_no_device(const std::filesystem::path& root = "/");

}  // namespace troupe::deploy
