// The program of processes: everything that device code provides for them.

#include "process/process.cuh"

#include "process/threads/wait.cuh"
#include "process/wasi/local.cuh"
#include "process/wasi/stream.cuh"
#include "process/wasi/descriptor.cuh"
#include "process/wasi/path.cuh"
#include "process/wasi/socket.cuh"
#include "process/wasi/net.cuh"
#include "process/gpu/import.cuh"
#include "process/gpu/host.cuh"
