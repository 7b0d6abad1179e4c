// The guest `hello` in C, for wasi-sdk. It is not built by the tests.
#include <stdio.h>
#include <stdlib.h>

extern char **environ;

int main(int argc, char **argv) {
  puts("hello");
  for (int number = 0; number < argc; number++) {
    printf("argument %d: %s\n", number, argv[number]);
  }
  for (char **variable = environ; variable && *variable; variable++) {
    printf("variable %s\n", *variable);
  }
  size_t bytes = 0, done;
  char buffer[4096];
  while ((done = fread(buffer, 1, sizeof buffer, stdin)) > 0) {
    bytes += done;
  }
  if (ferror(stdin)) {
    perror("hello: standard input");
    return EXIT_FAILURE;
  }
  printf("standard input: %zu bytes\n", bytes);
  return EXIT_SUCCESS;
}
