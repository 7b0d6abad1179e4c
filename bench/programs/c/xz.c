/* Compresses standard input with liblzma, decompresses the result, and prints both sizes if the bytes came back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lzma.h"

#define MOST (1 << 20)

int main(void) {
  unsigned char *text = malloc(MOST), *packed = malloc(2 * MOST), *back = malloc(MOST);
  if (!text || !packed || !back) return 1;
  size_t length = fread(text, 1, MOST, stdin), packed_length = 0, read = 0, back_length = 0;
  if (lzma_easy_buffer_encode(6, LZMA_CHECK_CRC64, NULL, text, length, packed, &packed_length, 2 * MOST) != LZMA_OK)
    return 1;
  uint64_t memory = UINT64_MAX;
  if (lzma_stream_buffer_decode(&memory, 0, NULL, packed, &read, packed_length, back, &back_length, MOST) != LZMA_OK)
    return 1;
  if (back_length != length || memcmp(text, back, length)) return 2;
  printf("%zu -> %zu\n", length, packed_length);
  return 0;
}
