/* Compresses standard input with zstd at several levels, decompresses the results, and prints the sizes if the bytes
   came back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zstd.h"

#define MOST (1 << 20)

int main(void) {
  char *text = malloc(MOST), *back = malloc(MOST);
  size_t room = ZSTD_compressBound(MOST);
  char *packed = malloc(room);
  if (!text || !back || !packed) return 1;
  size_t length = fread(text, 1, MOST, stdin);
  for (int level = 1; level <= 19; level += 6) {
    size_t size = ZSTD_compress(packed, room, text, length, level);
    if (ZSTD_isError(size)) return 1;
    if (ZSTD_decompress(back, MOST, packed, size) != length || memcmp(text, back, length)) return 2;
    printf("level %d: %zu -> %zu\n", level, length, size);
  }
  return 0;
}
