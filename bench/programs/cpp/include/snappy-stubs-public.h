// What Snappy's build makes of a template, for a system with <sys/uio.h>.
#pragma once
#include <sys/uio.h>

#include <cstddef>

namespace snappy {}
