// Modules as handlers: reads asks from a file, and writes what became of them. The CPU engine runs the same.
#include "world.h"

namespace {

void scenario(u64) {
  FILE* script = fopen("script.txt", "r");
  CHECK(script != nullptr, "there is no script");
  std::vector<u64> actors;
  char what;
  u64 first;
  while (fscanf(script, " %c %llu", &what, &first) == 2) {
    next_record = 0;
    if (what == 'L') {
      actors.push_back(launch((u32)first, 0));
      CHECK(actors.back() != 0, "there is no room");
      continue;
    }
    u64 tag, count;
    CHECK(fscanf(script, "%llu %llu", &tag, &count) == 2, "an ask has a tag");
    DevMessage m = message(actors[first], (u32)tag, {});
    m.head |= (u32)count << MESSAGE_WORDS_SHIFT;
    for (u64 i = 0; i < count; i++) {
      u64 word, actor;
      CHECK(fscanf(script, " %llx", &word) == 1, "an ask has words");
      m.words[i] = word;
      // `@3` stands for the id of an actor.
      if (fscanf(script, "@%llu", &actor) == 1) m.words[i] = actors[actor];
    }
    if (what == 'T') {
      tell_all({m});
      run_all();
      continue;
    }
    replies[0] = m;
    next_record = 1;
    const u32 group = next_group;
    submit(HOST_ASK, 0, 0, 0);
    run_all();
    const DevMessage& reply = replies[0];
    const bool gone = groups[group].value == TELL_GONE;
    CHECK((reply.head & MESSAGE_REPLY) != 0 || gone, "ask %llu of actor %llu has no end", tag, first);
    if (gone) printf("gone");
    else if ((reply.head & MESSAGE_FAILED) != 0) printf("failed %u", reply.head & 0xff);
    else for (u32 i = 0; i < (reply.head >> MESSAGE_WORDS_SHIFT & 0xff); i++) printf("%s%llx", i == 0 ? "" : " ", reply.words[i]);
    printf("\n");
    fflush(stdout);
  }
  fclose(script);
  audit(false);
  for (u64 n = control.failed < ACTOR_FAILURES ? 0 : control.failed - ACTOR_FAILURES; n < control.failed; n++) {
    const u64* record = control.failures + 3 * (n % ACTOR_FAILURES);
    printf("failure %u %u %u %u\n", (u32)(record[1] >> 32), (u32)record[1] & 0xff, (u32)record[2], (u32)record[1] >> 16 & 0xff);
  }
}

}  // namespace
