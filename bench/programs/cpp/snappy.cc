// Compresses standard input with Snappy, decompresses the result, and prints both sizes if the bytes came back.
#include <cstdio>
#include <iostream>
#include <iterator>
#include <string>

#include "snappy.h"

int main() {
  const std::string text(std::istreambuf_iterator<char>(std::cin), {});
  std::string packed, back;
  snappy::Compress(text.data(), text.size(), &packed);
  if (!snappy::Uncompress(packed.data(), packed.size(), &back) || back != text) return 2;
  std::cout << text.size() << " -> " << packed.size() << '\n';
}
