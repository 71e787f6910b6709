#pragma once
// State shared by all uses of oneDNN: its CPU engine, made once the usable instruction sets are
// set, a stream per thread, and one thread per product. Call `onednn_engine()` before anything else
// of the library.
#include <oneapi/dnnl/dnnl.hpp>

namespace troupe::kernels {

const dnnl::engine& onednn_engine();
dnnl::stream& onednn_stream();  // of this thread; products run in the caller and are done on return
bool onednn_has_vnni();         // true if products of bytes are summed in 32 bits at once

}  // namespace troupe::kernels
