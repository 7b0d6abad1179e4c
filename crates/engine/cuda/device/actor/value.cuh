// Values of channels: numbers and structs of up to 32 bytes, in the words of a message. crates/actor/src/channel.rs has the host's side.
#pragma once
#include "everwarp/actor/mailbox.cuh"

namespace ew {

// The number of a type, which host and device compute alike (`type_number` of crates/contract/src/layout.rs): a hash of its name. A
// struct that both share has it as a member.
__device__ constexpr u32 type_number_of(const char* name) {
  u32 hash = 0x811c9dc5u;
  for (; *name != 0; name++) hash = (hash ^ (u32)(u8)*name) * 0x01000193u;
  return hash;
}
template <class T>
struct TypeNumber {
  static constexpr u32 value = T::type_number;
};
#define EW_TYPE_NUMBER(type) \
  template <> \
  struct TypeNumber<type> { \
    static constexpr u32 value = type_number_of(#type); \
  };
EW_TYPE_NUMBER(u8)
EW_TYPE_NUMBER(u16)
EW_TYPE_NUMBER(u32)
EW_TYPE_NUMBER(u64)
EW_TYPE_NUMBER(i32)
EW_TYPE_NUMBER(i64)
EW_TYPE_NUMBER(float)
EW_TYPE_NUMBER(double)
#undef EW_TYPE_NUMBER

// A channel, and the type of what is sent on it or received from it. Numbers of channels have 32 bits; 0 is none.
template <class T>
EW_FN u64 typed_channel(u64 channel) {
  return (channel >> 32 == 0 ? channel : 0) | (u64)TypeNumber<T>::value << 32;
}

struct ValueWords {
  u64 words[4];
};
template <class T>
EW_FN ValueWords words_of(const T& value) {
  static_assert(sizeof(T) <= sizeof(ValueWords), "a channel's value has up to 32 bytes");
  ValueWords w{};
  memcpy(&w, &value, sizeof(T));
  return w;
}
template <class T>
EW_FN T value_of(const u64* words) {
  static_assert(sizeof(T) <= sizeof(ValueWords), "a channel's value has up to 32 bytes");
  T value;
  memcpy(&value, words, sizeof(T));
  return value;
}

}  // namespace ew
