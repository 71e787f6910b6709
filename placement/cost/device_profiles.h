#pragma once
// Knows devices, links and models by name, for the simulator and the planner, and converts a device
// to and from text: `troupe-lab bench calibrate` writes one for its machine, and `troupe-lab sim --device
// FILE` reads it. Peaks, bandwidths and shapes are published figures, with their sources beside
// them. The share that an engine reaches (efficiency, launches, half saturation) is a default of
// the device's class until it is calibrated.
#include <span>
#include <string>
#include <string_view>

#include "placement/cost/cost_model.h"

namespace troupe::placement {

std::span<const DeviceProfile> known_devices();
std::span<const LinkProfile> known_links();
std::span<const ModelShape> known_shapes();

// Find an entry by name, case-insensitively: "A100-40G", "pcie4", "100gbps", "qwen2-1.5b". Throw
// std::invalid_argument with a list of the known names.
const DeviceProfile& find_device(std::string_view name);
const LinkProfile& find_link(std::string_view name);
const ModelShape& find_shape(std::string_view name);

// Returns a machine of `cores` such cores: multiplies peaks and bandwidth.
DeviceProfile times_cores(const DeviceProfile& core, std::uint32_t cores);

// Convert a device to and from "key: value" lines; text after # is a comment. Parsing gives back
// exactly what was written. Both throw std::invalid_argument, as in "gpu.txt:7: efficency is no
// key; expected one of name, peak_f32, …"; `where` names the text in errors.
std::string device_text(const DeviceProfile& device);
DeviceProfile parse_device(std::string_view text, const std::string& where);

}  // namespace troupe::placement
