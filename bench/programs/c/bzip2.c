/* Compresses standard input with libbz2, decompresses the result, and prints both sizes if the bytes came back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bzlib.h"

#define MOST (1 << 20)

void bz_internal_error(int code) {
  fprintf(stderr, "bzip2: internal error %d\n", code);
  exit(3);
}

int main(void) {
  char *text = malloc(MOST), *packed = malloc(MOST + MOST / 8 + 600), *back = malloc(MOST);
  if (!text || !packed || !back) return 1;
  unsigned length = fread(text, 1, MOST, stdin), packed_length = MOST + MOST / 8 + 600, back_length = MOST;
  if (BZ2_bzBuffToBuffCompress(packed, &packed_length, text, length, 9, 0, 0) != BZ_OK) return 1;
  if (BZ2_bzBuffToBuffDecompress(back, &back_length, packed, packed_length, 0, 0) != BZ_OK) return 1;
  if (back_length != length || memcmp(text, back, length)) return 2;
  printf("%u -> %u\n", length, packed_length);
  return 0;
}
