/* jq looks for a home folder and for the place of its modules. A process has neither. */
#include <string.h>
#include <sys/types.h>
struct passwd {
  char *pw_dir;
};
static inline struct passwd *getpwnam(const char *name) { return 0; }
static inline struct passwd *getpwuid(uid_t id) { return 0; }
#define getuid() 0
#define realpath(path, into) strdup(path)
