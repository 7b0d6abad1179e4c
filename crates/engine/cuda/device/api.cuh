// The header for program sources: the views of a task by its shape, and atomics.
#pragma once
#include "everwarp/block/block.cuh"
