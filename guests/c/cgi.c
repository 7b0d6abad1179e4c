// A program for a route of `everwarp serve` (CGI): says what the request was, and repeats its body.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *value_of(const char *name) {
  const char *value = getenv(name);
  return value == NULL ? "" : value;
}

int main(void) {
  static char body[1 << 16];
  const char *info = value_of("PATH_INFO");
  if (strcmp(info, "/redirect") == 0) {
    fputs("Location: /elsewhere\r\n\r\n", stdout);
    return 0;
  }
  if (strcmp(info, "/nonsense") == 0) {
    puts("this is no answer");
    return 0;
  }
  if (strcmp(info, "/trap") == 0) abort();
  if (strcmp(info, "/teapot") == 0) fputs("Status: 418 I'm a teapot\n", stdout);
  fputs("Content-Type: text/plain\n\n", stdout);
  printf("%s %s\n", value_of("REQUEST_METHOD"), info);
  printf("query: %s\n", value_of("QUERY_STRING"));
  printf("type: %s\n", value_of("CONTENT_TYPE"));
  printf("agent: %s\n", value_of("HTTP_USER_AGENT"));
  printf("proxy: %s\n", value_of("HTTP_PROXY"));
  printf("peer: %s\n", value_of("REMOTE_ADDR"));
  size_t bytes = 0, read;
  while ((read = fread(body, 1, sizeof body, stdin)) > 0) {
    bytes += read;
    fwrite(body, 1, read, stdout);
  }
  printf("\n%zu bytes\n", bytes);
  return 0;
}
