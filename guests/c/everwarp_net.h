// BSD's sockets for a process of everwarp: what <sys/socket.h> and <netdb.h> of wasi-libc leave out for WASI preview 1.
//
// Include it after or in the place of those headers. Compiled for anything but WASI, it includes the system's own, so the
// same program runs natively. A process may use the addresses that --connect and --bind of its command allow; any other
// is refused with ENOTCAPABLE. guests/NET.md says what the imports promise. Include it in one source file: the functions
// are static.
#ifndef EVERWARP_NET_H
#define EVERWARP_NET_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#ifndef __wasi__

#include <netdb.h>

#else

// Names that wasi-libc may leave out.
#ifndef SO_REUSEADDR
#define SO_REUSEADDR 2
#endif
#ifndef SO_ERROR
#define SO_ERROR 4
#endif
#ifndef SO_BROADCAST
#define SO_BROADCAST 6
#endif
#ifndef SO_SNDBUF
#define SO_SNDBUF 7
#endif
#ifndef SO_RCVBUF
#define SO_RCVBUF 8
#endif
#ifndef SO_KEEPALIVE
#define SO_KEEPALIVE 9
#endif
#ifndef SO_ACCEPTCONN
#define SO_ACCEPTCONN 30
#endif
#ifndef SOMAXCONN
#define SOMAXCONN 128
#endif
#ifndef IP_TTL
#define IP_TTL 2
#endif
#ifndef IPV6_UNICAST_HOPS
#define IPV6_UNICAST_HOPS 16
#endif
#ifndef IPV6_V6ONLY
#define IPV6_V6ONLY 26
#endif
#ifndef EAI_NONAME
#define EAI_NONAME -2
#define EAI_FAIL -4
#define EAI_FAMILY -6
#define EAI_SERVICE -8
#define EAI_MEMORY -10
#define EAI_SYSTEM -11
#define AI_PASSIVE 0x01
#define AI_NUMERICHOST 0x04
#define AI_NUMERICSERV 0x400
struct addrinfo {
  int ai_flags;
  int ai_family;
  int ai_socktype;
  int ai_protocol;
  socklen_t ai_addrlen;
  struct sockaddr *ai_addr;
  char *ai_canonname;
  struct addrinfo *ai_next;
};
#endif

// An address as the imports have it.
typedef struct {
  uint16_t family;  // 4 or 6
  uint16_t port;
  uint8_t octets[16];
  uint32_t zone;
} everwarp_address;

#define EVERWARP_NET(name) __attribute__((import_module("everwarp:net"), import_name(name)))
EVERWARP_NET("socket") int everwarp_net_socket(int family, int kind, int *to);
EVERWARP_NET("bind") int everwarp_net_bind(int fd, const everwarp_address *at);
EVERWARP_NET("connect") int everwarp_net_connect(int fd, const everwarp_address *at);
EVERWARP_NET("listen") int everwarp_net_listen(int fd, int backlog);
EVERWARP_NET("address") int everwarp_net_address(int fd, int which, everwarp_address *to);
EVERWARP_NET("send_to")
int everwarp_net_send_to(int fd, const void *at, size_t length, const everwarp_address *to, size_t *sent);
EVERWARP_NET("receive_from")
int everwarp_net_receive_from(int fd, void *at, size_t length, int flags, everwarp_address *from, size_t *received);
EVERWARP_NET("option") int everwarp_net_option(int fd, int option, uint64_t *to);
EVERWARP_NET("set_option") int everwarp_net_set_option(int fd, int option, uint64_t value);
EVERWARP_NET("look_up")
int everwarp_net_look_up(const char *name, size_t length, everwarp_address *to, size_t most, size_t *count);
#undef EVERWARP_NET

// 0, or -1 with errno set.
static inline int everwarp_net_done(int error) {
  if (error == 0) return 0;
  errno = error;
  return -1;
}

// Reads an address of the program's; 0, or an error number.
static inline int everwarp_net_read(const struct sockaddr *from, socklen_t length, everwarp_address *to) {
  memset(to, 0, sizeof *to);
  if (from == NULL) return EDESTADDRREQ;
  if (length >= sizeof(struct sockaddr_in) && from->sa_family == AF_INET) {
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)from;
    to->family = 4, to->port = ntohs(v4->sin_port);
    memcpy(to->octets, &v4->sin_addr, 4);
    return 0;
  }
  if (length >= sizeof(struct sockaddr_in6) && from->sa_family == AF_INET6) {
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)from;
    to->family = 6, to->port = ntohs(v6->sin6_port), to->zone = v6->sin6_scope_id;
    memcpy(to->octets, &v6->sin6_addr, 16);
    return 0;
  }
  return EAFNOSUPPORT;
}

// Writes an address where a program wants it, as far as it fits.
static inline void everwarp_net_write(const everwarp_address *from, struct sockaddr *to, socklen_t *length) {
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
  const void *bytes = &v4;
  socklen_t whole = sizeof v4;
  if (to == NULL || length == NULL) return;
  memset(&v4, 0, sizeof v4), memset(&v6, 0, sizeof v6);
  if (from->family == 6) {
    v6.sin6_family = AF_INET6, v6.sin6_port = htons(from->port), v6.sin6_scope_id = from->zone;
    memcpy(&v6.sin6_addr, from->octets, 16);
    bytes = &v6, whole = sizeof v6;
  } else {
    v4.sin_family = AF_INET, v4.sin_port = htons(from->port);
    memcpy(&v4.sin_addr, from->octets, 4);
  }
  if (from->family == 0) whole = 0;
  memcpy(to, bytes, *length < whole ? *length : whole);
  *length = whole;
}

static inline int everwarp_socket(int domain, int type, int protocol) {
  int fd = -1;
  (void)protocol;
  const int kind = type == SOCK_STREAM ? 1 : type == SOCK_DGRAM ? 2 : 0;
  const int family = domain == AF_INET ? 4 : domain == AF_INET6 ? 6 : 0;
  return everwarp_net_done(everwarp_net_socket(family, kind, &fd)) == 0 ? fd : -1;
}

static inline int everwarp_bind(int fd, const struct sockaddr *address, socklen_t length) {
  everwarp_address read;
  const int wrong = everwarp_net_read(address, length, &read);
  return everwarp_net_done(wrong != 0 ? wrong : everwarp_net_bind(fd, &read));
}

static inline int everwarp_connect(int fd, const struct sockaddr *address, socklen_t length) {
  everwarp_address read;
  const int wrong = everwarp_net_read(address, length, &read);
  return everwarp_net_done(wrong != 0 ? wrong : everwarp_net_connect(fd, &read));
}

static inline int everwarp_listen(int fd, int backlog) { return everwarp_net_done(everwarp_net_listen(fd, backlog)); }

static inline int everwarp_getname(int fd, int which, struct sockaddr *to, socklen_t *length) {
  everwarp_address address;
  const int error = everwarp_net_address(fd, which, &address);
  if (error == 0) everwarp_net_write(&address, to, length);
  return everwarp_net_done(error);
}
static inline int everwarp_getsockname(int fd, struct sockaddr *to, socklen_t *length) {
  return everwarp_getname(fd, 0, to, length);
}
static inline int everwarp_getpeername(int fd, struct sockaddr *to, socklen_t *length) {
  return everwarp_getname(fd, 1, to, length);
}

static inline int everwarp_accept(int fd, struct sockaddr *from, socklen_t *length) {
  const int client = accept(fd, NULL, NULL);
  if (client >= 0 && from != NULL) everwarp_getpeername(client, from, length);
  return client;
}

static inline ssize_t everwarp_sendto(int fd, const void *at, size_t bytes, int flags, const struct sockaddr *to,
                                      socklen_t length) {
  everwarp_address read;
  size_t sent = 0;
  if (to == NULL) return send(fd, at, bytes, flags);
  int error = everwarp_net_read(to, length, &read);
  if (error == 0 && flags != 0) error = EINVAL;
  if (error == 0) error = everwarp_net_send_to(fd, at, bytes, &read, &sent);
  return everwarp_net_done(error) == 0 ? (ssize_t)sent : -1;
}

static inline ssize_t everwarp_recvfrom(int fd, void *at, size_t bytes, int flags, struct sockaddr *from,
                                        socklen_t *length) {
  everwarp_address address;
  size_t received = 0;
  if (from == NULL) return recv(fd, at, bytes, flags);
  const int peek = flags == MSG_PEEK ? 1 : 0;
  if (flags != 0 && !peek) return everwarp_net_done(EINVAL);
  const int error = everwarp_net_receive_from(fd, at, bytes, peek, &address, &received);
  if (error == 0) everwarp_net_write(&address, from, length);
  return everwarp_net_done(error) == 0 ? (ssize_t)received : -1;
}

// The number of a setting; 0 if there is none.
static inline int everwarp_net_option_of(int level, int name) {
  if (level == SOL_SOCKET) {
    switch (name) {
      case SO_REUSEADDR: return 2;
      case SO_KEEPALIVE: return 3;
      case SO_BROADCAST: return 4;
      case SO_RCVBUF: return 5;
      case SO_SNDBUF: return 6;
      case SO_ERROR: return 9;
      case SO_TYPE: return 10;
      case SO_ACCEPTCONN: return 11;
      default: return 0;
    }
  }
  if (level == IPPROTO_TCP && name == TCP_NODELAY) return 1;
  if (level == IPPROTO_IP && name == IP_TTL) return 7;
  if (level == IPPROTO_IPV6 && name == IPV6_UNICAST_HOPS) return 7;
  if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY) return 8;
  return 0;
}

static inline int everwarp_getsockopt(int fd, int level, int name, void *to, socklen_t *length) {
  uint64_t value = 0;
  const int error = everwarp_net_option(fd, everwarp_net_option_of(level, name), &value);
  if (error != 0) return everwarp_net_done(error);
  int number = (int)value;
  if (level == SOL_SOCKET && name == SO_TYPE) number = value == 1 ? SOCK_STREAM : SOCK_DGRAM;
  if (*length > sizeof number) *length = sizeof number;
  memcpy(to, &number, *length);
  return 0;
}

static inline int everwarp_setsockopt(int fd, int level, int name, const void *from, socklen_t length) {
  int number = 0;
  if (length < sizeof number) return everwarp_net_done(EINVAL);
  memcpy(&number, from, sizeof number);
  const int option = everwarp_net_option_of(level, name);
  // A switch is on for every number but 0; sizes and hops are numbers.
  const int is_number = option == 5 || option == 6 || option == 7;
  return everwarp_net_done(everwarp_net_set_option(fd, option, is_number ? (uint64_t)number : number != 0));
}

static inline void everwarp_freeaddrinfo(struct addrinfo *list) {
  while (list != NULL) {
    struct addrinfo *next = list->ai_next;
    free(list);
    list = next;
  }
}

static inline int everwarp_getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                                       struct addrinfo **to) {
  enum { MOST = 64 };
  static everwarp_address found[MOST];
  const int family = hints == NULL ? AF_UNSPEC : hints->ai_family;
  const int kind = hints == NULL ? 0 : hints->ai_socktype;
  const int passive = hints != NULL && (hints->ai_flags & AI_PASSIVE);
  char *end = NULL;
  const unsigned long port = service == NULL ? 0 : strtoul(service, &end, 10);
  if (service != NULL && (*service == 0 || *end != 0 || port > 65535)) return EAI_SERVICE;
  size_t count = 0;
  if (name == NULL) {
    memset(found, 0, sizeof found);
    found[0].family = 6, found[1].family = 4, count = 2;
    if (!passive) found[0].octets[15] = 1, found[1].octets[0] = 127, found[1].octets[3] = 1;
  } else {
    const int error = everwarp_net_look_up(name, strlen(name), found, MOST, &count);
    if (error == ENOENT || error == EINVAL) return EAI_NONAME;
    if (error != 0) {
      errno = error;
      return EAI_SYSTEM;
    }
  }
  struct addrinfo *first = NULL, **last = &first;
  for (size_t k = 0; k < count; k++) {
    const int of = found[k].family == 6 ? AF_INET6 : AF_INET;
    if (family != AF_UNSPEC && family != of) continue;
    struct addrinfo *one = calloc(1, sizeof *one + sizeof(struct sockaddr_in6));
    if (one == NULL) {
      everwarp_freeaddrinfo(first);
      return EAI_MEMORY;
    }
    found[k].port = (uint16_t)port;
    one->ai_family = of, one->ai_socktype = kind, one->ai_addr = (struct sockaddr *)(one + 1);
    one->ai_addrlen = sizeof(struct sockaddr_in6);
    everwarp_net_write(&found[k], one->ai_addr, &one->ai_addrlen);
    *last = one, last = &one->ai_next;
  }
  *to = first;
  return first == NULL ? EAI_NONAME : 0;
}

static inline const char *everwarp_gai_strerror(int error) {
  switch (error) {
    case EAI_NONAME: return "Name or service not known";
    case EAI_SERVICE: return "Servname not supported for ai_socktype";
    case EAI_MEMORY: return "Memory allocation failure";
    case EAI_SYSTEM: return "System error";
    default: return "Unknown error";
  }
}

#define socket everwarp_socket
#define bind everwarp_bind
#define connect everwarp_connect
#define listen everwarp_listen
#define accept everwarp_accept
#define getsockname everwarp_getsockname
#define getpeername everwarp_getpeername
#define sendto everwarp_sendto
#define recvfrom everwarp_recvfrom
#define getsockopt everwarp_getsockopt
#define setsockopt everwarp_setsockopt
#define getaddrinfo everwarp_getaddrinfo
#define freeaddrinfo everwarp_freeaddrinfo
#define gai_strerror everwarp_gai_strerror

#endif  // __wasi__
#endif
