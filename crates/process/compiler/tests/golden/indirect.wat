;; An indirect call goes through one function for its table and type, which branches to direct calls.
(module
  (type $t (func (result i32)))
  (table funcref (elem $one $two))
  (func $one (result i32) (i32.const 1))
  (func $two (result i32) (i32.const 2))
  (func (export "pick") (param i32) (result i32)
    (call_indirect (type $t) (local.get 0))))

;; --- what is emitted ---
;; .func (.param .align 8 .b8 ret[16]) f0 (.param .b64 inst, .param .b64 fuel, .param .b32 depth)
;; {
;;   .reg .b32 %r<1>;
;;   .reg .b64 %inst, %fuel, %mem, %len, %st;
;;   .reg .b32 %depth, %tc, %to, %low;
;;   .reg .pred %sp;
;;   ld.param.b64 %inst, [inst];
;;   ld.param.b64 %fuel, [fuel];
;;   ld.param.b32 %depth, [depth];
;;   mov.b32 %r0, 1;
;; $L0:
;;   st.param.b64 [ret], %fuel;
;;   st.param.b32 [ret+8], %r0;
;;   ret;
;; }
;; .func (.param .align 8 .b8 ret[16]) f1 (.param .b64 inst, .param .b64 fuel, .param .b32 depth)
;; {
;;   .reg .b32 %r<1>;
;;   .reg .b64 %inst, %fuel, %mem, %len, %st;
;;   .reg .b32 %depth, %tc, %to, %low;
;;   .reg .pred %sp;
;;   ld.param.b64 %inst, [inst];
;;   ld.param.b64 %fuel, [fuel];
;;   ld.param.b32 %depth, [depth];
;;   mov.b32 %r0, 2;
;; $L0:
;;   st.param.b64 [ret], %fuel;
;;   st.param.b32 [ret+8], %r0;
;;   ret;
;; }
;; .func (.param .align 8 .b8 ret[16]) f2 (.param .b64 inst, .param .b64 fuel, .param .b32 depth, .param .b32 a0)
;; {
;;   .reg .b32 %r<3>;
;;   .reg .b64 %inst, %fuel, %mem, %len, %st;
;;   .reg .b32 %fl, %fh, %ft, %lim;
;;   .reg .b32 %depth, %tc, %to, %low;
;;   .reg .pred %sp;
;;   ld.param.b64 %inst, [inst];
;;   ld.param.b64 %fuel, [fuel];
;;   ld.param.b32 %depth, [depth];
;;   mov.b64 {%fl, %fh}, %fuel;
;;   and.b32 %ft, %fl, 1023;
;;   setp.eq.s32 %sp, %ft, 0;
;;   @%sp bra $L2;
;; $L4:
;;   add.s32 %fl, %fl, -1;
;;   mov.b64 %fuel, {%fl, %fh};
;;   setp.eq.s32 %sp, %depth, 0;
;;   @%sp bra $L5;
;;   add.s32 %depth, %depth, -1;
;;   ld.param.b32 %r0, [a0];
;;   {
;;   .param .b64 ci;
;;   .param .b64 cf;
;;   .param .b32 cd;
;;   st.param.b64 [ci], %inst;
;;   st.param.b64 [cf], %fuel;
;;   st.param.b32 [cd], %depth;
;;   .param .b32 c0;
;;   st.param.b32 [c0], %r0;
;;   .param .align 8 .b8 cr[16];
;;   call (cr), i0_0, (ci, cf, cd, c0);
;;   ld.param.b64 %fuel, [cr];
;;   ld.param.b32 %r2, [cr+8];
;;   }
;;   setp.lt.s64 %sp, %fuel, 0;
;;   @%sp bra $L1;
;;   mov.b32 %r1, %r2;
;; $L0:
;;   st.param.b64 [ret], %fuel;
;;   st.param.b32 [ret+8], %r1;
;;   ret;
;; $L1:
;;   setp.eq.s64 %sp, %fuel, -1;
;;   @%sp bra $U;
;;   cvt.u32.u64 %tc, %fuel;
;;   sub.s32 %tc, -1, %tc;
;;   mov.b32 %to, 72;
;;   ld.global.b64 %fuel, [%inst+16];
;;   bra $T;
;; $L2:
;;   mov.b32 %to, 69;
;;   mov.b32 %tc, 11;
;;   setp.eq.s64 %sp, %fuel, 0;
;;   @%sp bra $S;
;;   mov.b64 {%fl, %fh}, %fuel;
;;   setp.eq.s32 %sp, %fl, 0;
;;   @%sp add.s32 %fh, %fh, -1;
;;   mov.b64 %fuel, {%fl, %fh};
;;   ld.relaxed.sys.global.b32 %tc, [%inst+12];
;;   setp.eq.s32 %sp, %tc, 0;
;;   @%sp bra $L3;
;;   mov.b64 {%fl, %fh}, %fuel;
;;   setp.eq.s32 %sp, %fl, 0;
;;   @%sp add.s32 %fh, %fh, 1;
;;   mov.b64 %fuel, {%fl, %fh};
;;   mov.b32 %tc, 12;
;;   bra $S;
;; $L3:
;;   bra $L4;
;; $L5:
;;   mov.b32 %to, 69;
;;   bra $K10;
;; $K10:
;;   mov.b32 %tc, 10;
;;   bra $T;
;; $T:
;;   add.s64 %fuel, %fuel, 1;
;; $S:
;;   st.global.b32 [%inst+0], %tc;
;;   mov.b32 %tc, 2;
;;   st.global.b32 [%inst+4], %tc;
;;   st.global.b32 [%inst+8], %to;
;;   st.global.b64 [%inst+16], %fuel;
;;   mov.b64 %fuel, -1;
;; $U:
;;   st.param.b64 [ret], %fuel;
;;   ret;
;; }
;; .func (.param .align 8 .b8 ret[16]) i0_0 (.param .b64 inst, .param .b64 fuel, .param .b32 depth, .param .b32 index)
;; {
;;   .reg .b64 %inst, %fuel, %d<5>;
;;   .reg .b32 %depth, %index, %r<3>;
;;   .reg .pred %p;
;;   ld.param.b64 %inst, [inst];
;;   ld.param.b64 %fuel, [fuel];
;;   ld.param.b32 %depth, [depth];
;;   ld.param.b32 %index, [index];
;;   ld.global.b32 %r0, [%inst+72];
;;   mov.b64 %d0, -8;
;;   setp.ge.u32 %p, %index, %r0;
;;   @%p bra $fail;
;;   ld.global.b64 %d1, [%inst+64];
;;   mul.wide.u32 %d2, %index, 8;
;;   add.s64 %d1, %d1, %d2;
;;   ld.global.b64 %d3, [%d1];
;;   mov.b64 %d0, -9;
;;   setp.eq.s64 %p, %d3, 0;
;;   @%p bra $fail;
;;   mov.b64 %d0, -10;
;;   shr.u64 %d4, %d3, 32;
;;   cvt.u32.u64 %r1, %d4;
;;   setp.ne.s32 %p, %r1, 0;
;;   @%p bra $fail;
;;   cvt.u32.u64 %r2, %d3;
;;   setp.eq.s32 %p, %r2, 1;
;;   @%p bra $F0;
;;   setp.eq.s32 %p, %r2, 2;
;;   @%p bra $F1;
;; $fail:
;;   st.global.b64 [%inst+16], %fuel;
;;   st.param.b64 [ret], %d0;
;;   ret;
;; $F0:
;;   {
;;   .reg .b32 %v0;
;;   .param .b64 ci;
;;   .param .b64 cf;
;;   .param .b32 cd;
;;   st.param.b64 [ci], %inst;
;;   st.param.b64 [cf], %fuel;
;;   st.param.b32 [cd], %depth;
;;   .param .align 8 .b8 cr[16];
;;   call (cr), f0, (ci, cf, cd);
;;   ld.param.b64 %fuel, [cr];
;;   st.param.b64 [ret], %fuel;
;;   ld.param.b32 %v0, [cr+8];
;;   st.param.b32 [ret+8], %v0;
;;   }
;;   ret;
;; $F1:
;;   {
;;   .reg .b32 %v0;
;;   .param .b64 ci;
;;   .param .b64 cf;
;;   .param .b32 cd;
;;   st.param.b64 [ci], %inst;
;;   st.param.b64 [cf], %fuel;
;;   st.param.b32 [cd], %depth;
;;   .param .align 8 .b8 cr[16];
;;   call (cr), f1, (ci, cf, cd);
;;   ld.param.b64 %fuel, [cr];
;;   st.param.b64 [ret], %fuel;
;;   ld.param.b32 %v0, [cr+8];
;;   st.param.b32 [ret+8], %v0;
;;   }
;;   ret;
;; }
