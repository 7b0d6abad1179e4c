// The guest `sockets` in C. It runs natively as well, and prints the same.
#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// A number in an environment variable, or -1.
static int variable(const char *name) {
  const char *text = getenv(name);
  return text == NULL ? -1 : atoi(text);
}

static const char *name_of(int error) {
  switch (error) {
    case 0: return "no error";
    case EAGAIN: return "EAGAIN";
    case EBADF: return "EBADF";
    case ECONNRESET: return "ECONNRESET";
    case EINVAL: return "EINVAL";
    case ENOTCONN: return "ENOTCONN";
    case ENOTSOCK: return "ENOTSOCK";
    case EPIPE: return "EPIPE";
    case ESPIPE: return "ESPIPE";
    default: return strerror(error);
  }
}

// Sends all bytes; 0 for success.
static int send_all(int client, const char *bytes, size_t count) {
  while (count > 0) {
    const ssize_t sent = send(client, bytes, count, 0);
    if (sent < 0) return -1;
    bytes += sent, count -= (size_t)sent;
  }
  return 0;
}

// Greets a client and sends it what it has sent, in capitals; returns the bytes, or -1.
static long answer(int client, const char *greeting, size_t length) {
  if (send_all(client, greeting, length) != 0) return -1;
  long bytes = 0;
  for (;;) {
    struct pollfd watched = {.fd = client, .events = POLLIN};
    if (poll(&watched, 1, 20000) != 1) return -1;
    char buffer[1000], peeked[4];
    if (recv(client, peeked, sizeof peeked, MSG_PEEK) < 0) return -1;
    const ssize_t received = recv(client, buffer, sizeof buffer, 0);
    if (received < 0) return -1;
    if (received == 0) break;
    bytes += received;
    for (ssize_t k = 0; k < received; k++) buffer[k] = (char)toupper((unsigned char)buffer[k]);
    if (send_all(client, buffer, (size_t)received) != 0) return -1;
  }
  return shutdown(client, SHUT_WR) == 0 ? bytes : -1;
}

// What calls on the wrong kind of descriptor answer.
static void report_errors(int listener, int client) {
  char byte = 0;
  errno = 0;
  recv(listener, &byte, 1, 0);
  printf("recv on the listener: %s\n", name_of(errno));
  errno = 0;
  accept(client, NULL, NULL);
  printf("accept on a client: %s\n", name_of(errno));
  errno = 0;
  lseek(client, 0, SEEK_SET);
  printf("lseek on a client: %s\n", name_of(errno));
  errno = 0;
  accept(99, NULL, NULL);
  printf("accept on nothing: %s\n", name_of(errno));
  int type = 0;
  socklen_t size = sizeof type;
  const int got = getsockopt(client, SOL_SOCKET, SO_TYPE, &type, &size);
  printf("a client is a stream: %s\n", got == 0 && type == SOCK_STREAM ? "yes" : "no");
}

int main(int argc, char **argv) {
  const int clients = argc > 1 ? atoi(argv[1]) : 1;
  char greeting[256];
  size_t length = 0;
  if (argc > 2) {
    FILE *file = fopen(argv[2], "r");
    if (file == NULL) {
      perror(argv[2]);
      return 2;
    }
    length = fread(greeting, 1, sizeof greeting, file);
    fclose(file);
  }
  const int listener = variable("LISTEN_FDS_FIRST");
  if (variable("LISTEN_FDS") < 1 || listener < 0) {
    fprintf(stderr, "sockets: no listener: run it with --listen PORT\n");
    return 2;
  }
  for (int number = 0; number < clients; number++) {
    const int client = accept(listener, NULL, NULL);
    if (client < 0) {
      printf("client %d: %s\n", number, name_of(errno));
      continue;
    }
    if (number == 0) report_errors(listener, client);
    const long bytes = answer(client, greeting, length);
    if (bytes < 0) printf("client %d: %s\n", number, name_of(errno));
    else printf("client %d: %ld bytes\n", number, bytes);
    close(client);
  }
  puts("done");
  return 0;
}
