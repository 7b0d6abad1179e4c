// Uses the network as its command allows: `dial STREAM DATAGRAMS CLOSED`. The arguments are ports of this machine: of a
// server that returns what it gets on a stream, of one that does so with datagrams, and one where none listens. It runs
// natively as well, and prints the same.
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "everwarp_net.h"

// WASI has no signals, and no flag that turns one off.
#ifdef __wasi__
#define QUIETLY 0
#else
#define QUIETLY MSG_NOSIGNAL
#endif

static const char *name_of(int error) {
  switch (error) {
    case 0: return "no error";
    case EADDRINUSE: return "EADDRINUSE";
    case EAFNOSUPPORT: return "EAFNOSUPPORT";
    case EAGAIN: return "EAGAIN";
    case EBADF: return "EBADF";
    case ECONNREFUSED: return "ECONNREFUSED";
    case EDESTADDRREQ: return "EDESTADDRREQ";
    case EINVAL: return "EINVAL";
    case EISCONN: return "EISCONN";
    case ENOTCONN: return "ENOTCONN";
    case ENOTSOCK: return "ENOTSOCK";
    case EOPNOTSUPP: return "EOPNOTSUPP";
    case EPIPE: return "EPIPE";
    default: return strerror(error);
  }
}

// Prints what a call has answered: a number that is not negative, or the error.
static void say(const char *what, long answer) {
  if (answer < 0) printf("%s: %s\n", what, name_of(errno));
  else printf("%s: %ld\n", what, answer);
}

// An address of this machine; the storage has room for both families.
static socklen_t loopback(int family, int port, struct sockaddr_storage *to) {
  memset(to, 0, sizeof *to);
  if (family == AF_INET6) {
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)to;
    v6->sin6_family = AF_INET6, v6->sin6_port = htons((uint16_t)port), v6->sin6_addr.s6_addr[15] = 1;
    return sizeof *v6;
  }
  struct sockaddr_in *v4 = (struct sockaddr_in *)to;
  v4->sin_family = AF_INET, v4->sin_port = htons((uint16_t)port), v4->sin_addr.s_addr = htonl(0x7f000001);
  return sizeof *v4;
}

static int port_of(const struct sockaddr_storage *address) {
  if (address->ss_family == AF_INET6) return ntohs(((const struct sockaddr_in6 *)address)->sin6_port);
  return ntohs(((const struct sockaddr_in *)address)->sin_port);
}

static long echo_all(int fd, const char *piece, int pieces) {
  const size_t length = strlen(piece);
  long sent = 0, received = 0;
  char buffer[4096];
  struct pollfd watched = {.fd = fd, .events = POLLIN | POLLOUT};
  while (pieces > 0) {
    if (poll(&watched, 1, 20000) != 1) return -1;
    if (watched.revents & POLLIN) {
      const ssize_t got = recv(fd, buffer, sizeof buffer, 0);
      if (got < 0) return -1;
      received += got;
    }
    if (watched.revents & POLLOUT) {
      const ssize_t part = send(fd, piece, length, 0);
      if (part < 0) return -1;
      sent += part, pieces--;
    }
  }
  if (shutdown(fd, SHUT_WR) != 0) return -1;
  for (;;) {
    const ssize_t got = recv(fd, buffer, sizeof buffer, 0);
    if (got < 0) return -1;
    if (got == 0) return received == sent ? received : -1;
    received += got;
  }
}

static void streams(int family, int port) {
  struct sockaddr_storage to, name;
  socklen_t length = loopback(family, port, &to), room = sizeof name;
  const int fd = socket(family, SOCK_STREAM, 0);
  char byte = 0;
  say("recv before connect", recv(fd, &byte, 1, 0));
  say("accept before listen", accept(fd, NULL, NULL));
  say("connect", connect(fd, (struct sockaddr *)&to, length));
  say("connect again", connect(fd, (struct sockaddr *)&to, length));
  say("getpeername", getpeername(fd, (struct sockaddr *)&name, &room));
  printf("the peer is right: %d\n", room == length && port_of(&name) == port);
  int on = 1, value = 0;
  socklen_t size = sizeof value;
  say("setsockopt", setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
  say("getsockopt", getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &size));
  printf("no delay: %d\n", value != 0);
  say("getsockopt of the kind", getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &size));
  printf("a stream: %d\n", value == SOCK_STREAM);
  say("echo", echo_all(fd, "a piece of text; ", 5000));
  say("send after the end", send(fd, "x", 1, QUIETLY));
  say("close", close(fd));
  say("getpeername after close", getpeername(fd, (struct sockaddr *)&name, &room));
}

static void datagrams(int family, int port) {
  struct sockaddr_storage to, from;
  const socklen_t length = loopback(family, port, &to);
  socklen_t room = sizeof from;
  const int fd = socket(family, SOCK_DGRAM, 0);
  char buffer[100];
  say("send without a peer", send(fd, "x", 1, 0));
  say("sendto", sendto(fd, "some text", 9, 0, (struct sockaddr *)&to, length));
  say("peek", recvfrom(fd, buffer, 4, MSG_PEEK, (struct sockaddr *)&from, &room));
  say("recvfrom", recvfrom(fd, buffer, sizeof buffer, 0, (struct sockaddr *)&from, &room));
  printf("the sender is right: %d\n", room == length && port_of(&from) == port);
  say("connect", connect(fd, (struct sockaddr *)&to, length));
  say("send", send(fd, "more", 4, 0));
  say("recv", recv(fd, buffer, sizeof buffer, 0));
  say("listen", listen(fd, 1));
  say("close", close(fd));
}

static void both_sides(int family) {
  struct sockaddr_storage at, from;
  socklen_t length = loopback(family, 0, &at), room = sizeof from;
  const int listener = socket(family, SOCK_STREAM, 0);
  int value = 1;
  socklen_t size = sizeof value;
  say("setsockopt", setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &value, sizeof value));
  say("bind", bind(listener, (struct sockaddr *)&at, length));
  say("bind again", bind(listener, (struct sockaddr *)&at, length));
  say("listen", listen(listener, 5));
  say("getsockname", getsockname(listener, (struct sockaddr *)&at, &length));
  const int second = socket(family, SOCK_STREAM, 0);
  say("bind what is taken", bind(second, (struct sockaddr *)&at, length));
  say("fcntl", fcntl(listener, F_SETFL, O_NONBLOCK));
  say("accept", accept(listener, NULL, NULL));
  say("fcntl", fcntl(listener, F_SETFL, 0));
  say("connect", connect(second, (struct sockaddr *)&at, length));
  const int client = accept(listener, (struct sockaddr *)&from, &room);
  printf("accepted: %d\n", client >= 0 && room == length && from.ss_family == family);
  say("getsockopt", getsockopt(listener, SOL_SOCKET, SO_ACCEPTCONN, &value, &size));
  printf("it listens: %d\n", value != 0);
  say("send", send(second, "ask", 3, 0));
  say("shutdown", shutdown(second, SHUT_WR));
  char buffer[10];
  say("recv", recv(client, buffer, sizeof buffer, 0));
  say("recv at the end", recv(client, buffer, sizeof buffer, 0));
  say("send to half", send(client, "answer", 6, 0));
  say("recv", recv(second, buffer, sizeof buffer, 0));
  close(client), close(second), close(listener);
}

static void errors(int closed) {
  struct sockaddr_storage to;
  const socklen_t length = loopback(AF_INET, closed, &to);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  say("connect to nothing", connect(fd, (struct sockaddr *)&to, length));
  to.ss_family = 99;
  say("connect to another family", connect(fd, (struct sockaddr *)&to, length));
  say("bind a file", bind(2, (struct sockaddr *)&to, loopback(AF_INET, 0, &to)));
  say("listen on nothing", listen(77, 1));
  close(fd);
}

static void names(void) {
  struct addrinfo hints, *found = NULL;
  memset(&hints, 0, sizeof hints);
  hints.ai_family = AF_INET, hints.ai_socktype = SOCK_STREAM;
  printf("getaddrinfo: %d\n", getaddrinfo("localhost", "80", &hints, &found));
  const struct sockaddr_in *v4 = found == NULL ? NULL : (const struct sockaddr_in *)found->ai_addr;
  printf("localhost: %d\n", v4 != NULL && ntohl(v4->sin_addr.s_addr) >> 24 == 127 && ntohs(v4->sin_port) == 80);
  if (found != NULL) freeaddrinfo(found);
  printf("no service: %d\n", getaddrinfo("localhost", "x y", &hints, &found) == EAI_SERVICE);
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "dial: use STREAM DATAGRAMS CLOSED, which are ports\n");
    return 2;
  }
  const int families[] = {AF_INET, AF_INET6};
  for (int k = 0; k < 2; k++) {
    printf("-- %s\n", k == 0 ? "IPv4" : "IPv6");
    streams(families[k], atoi(argv[1]));
    datagrams(families[k], atoi(argv[2]));
    both_sides(families[k]);
  }
  errors(atoi(argv[3]));
  names();
  return 0;
}
