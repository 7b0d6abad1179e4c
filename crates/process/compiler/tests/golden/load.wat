;; The bounds check uses 64 bits, and a helper handles an address that is not aligned.
(module
  (memory 1)
  (func (export "load") (param i32) (result i64)
    (i64.load16_s offset=6 (local.get 0))))

;; --- what is emitted ---
;; .func (.param .align 8 .b8 ret[16]) f0 (.param .b64 inst, .param .b64 fuel, .param .b32 depth, .param .b64 mem, .param .b32 a0)
;; {
;;   .reg .b32 %r<6>;
;;   .reg .b64 %d<5>;
;;   .reg .pred %p<2>;
;;   .reg .b64 %inst, %fuel, %mem, %len, %st;
;;   .reg .b32 %depth, %tc, %to, %low;
;;   .reg .pred %sp;
;;   ld.param.b64 %inst, [inst];
;;   ld.param.b64 %fuel, [fuel];
;;   ld.param.b32 %depth, [depth];
;;   ld.param.b64 %mem, [mem];
;;   ld.global.b64 %len, [%inst+32];
;;   cvt.u32.u64 %low, %len;
;;   ld.param.b32 %r0, [a0];
;;   cvt.u64.u32 %d1, %r0;
;;   add.s64 %d2, %mem, %d1;
;;   sub.s32 %r1, %low, 8;
;;   setp.gt.u32 %p0, %r0, %r1;
;;   @%p0 bra $L1;
;;   and.b32 %r2, %r0, 1;
;;   setp.ne.s32 %p1, %r2, 0;
;;   and.b64 %d3, %d2, -2;
;;   shl.b32 %r3, %r2, 3;
;;   ld.global.u16 %r4, [%d3+6];
;;   mov.b32 %r5, 0;
;;   @%p1 ld.global.u16 %r5, [%d3+8];
;;   shl.b32 %r5, %r5, 16;
;;   or.b32 %r4, %r4, %r5;
;;   shr.u32 %r4, %r4, %r3;
;;   cvt.s64.s16 %d4, %r4;
;;   mov.b64 %d0, %d4;
;; $L0:
;;   st.param.b64 [ret], %fuel;
;;   st.param.b64 [ret+8], %d0;
;;   ret;
;; $L1:
;;   mov.b32 %to, 42;
;;   bra $K5;
;; $K5:
;;   mov.b32 %tc, 5;
;;   bra $T;
;; $T:
;;   add.s64 %fuel, %fuel, 1;
;; $S:
;;   st.global.b32 [%inst+0], %tc;
;;   mov.b32 %tc, 0;
;;   st.global.b32 [%inst+4], %tc;
;;   st.global.b32 [%inst+8], %to;
;;   st.global.b64 [%inst+16], %fuel;
;;   mov.b64 %fuel, -1;
;; $U:
;;   st.param.b64 [ret], %fuel;
;;   ret;
;; }
