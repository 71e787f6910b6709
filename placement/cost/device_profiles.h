#pragma once
// Devices, links and models by name, for the simulator and the planner, and a device as text: `troupe bench
// calibrate` writes one of the machine that it runs on, and `troupe sim --device FILE` reads it. Peaks,
// bandwidths and shapes are published figures, with their sources beside them; what an engine reaches of them
// (efficiency, launches, half saturation) is a default of the device's class until it is calibrated.
#include <span>
#include <string>
#include <string_view>

#include "placement/cost/cost_model.h"

namespace troupe::placement {

std::span<const DeviceProfile> known_devices();
std::span<const LinkProfile> known_links();
std::span<const ModelShape> known_shapes();

// By name, in upper or lower case: "A100-40G", "pcie4", "100gbps", "qwen2-1.5b". Throw std::invalid_argument
// that lists the names there are.
const DeviceProfile& find_device(std::string_view name);
const LinkProfile& find_link(std::string_view name);
const ModelShape& find_shape(std::string_view name);

// The same device `cores` times: peaks and bandwidth of a CPU core to those of a machine.
DeviceProfile times_cores(const DeviceProfile& core, std::uint32_t cores);

// "key: value" lines; what follows # is for the reader. Reading gives back exactly what was written. Both
// throw std::invalid_argument, as in "gpu.txt:7: efficency is no key; expected one of name, peak_f32, …";
// `where` names the text in it.
std::string device_text(const DeviceProfile& device);
DeviceProfile parse_device(std::string_view text, const std::string& where);

}  // namespace troupe::placement
