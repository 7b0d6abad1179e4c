;; The check is made in 64 bits, and an address that is not aligned goes to a helper.
(module
  (memory 1)
  (func (export "load") (param i32) (result i64)
    (i64.load16_s offset=6 (local.get 0))))

;; --- what is emitted ---
;; .func (.param .align 8 .b8 ret[16]) f0 (.param .b64 inst, .param .b64 fuel, .param .b32 depth, .param .b32 a0)
;; {
;;   .reg .b32 %r<4>;
;;   .reg .b64 %d<6>;
;;   .reg .pred %p<2>;
;;   .reg .b64 %inst, %fuel, %mem, %len, %st;
;;   .reg .b32 %depth, %tc, %to;
;;   .reg .pred %sp;
;;   ld.param.b64 %inst, [inst];
;;   ld.param.b64 %fuel, [fuel];
;;   ld.param.b32 %depth, [depth];
;;   ld.global.b64 %mem, [%inst+24];
;;   ld.global.b64 %len, [%inst+32];
;;   ld.param.b32 %r0, [a0];
;;   cvt.u64.u32 %d1, %r0;
;;   add.s64 %d2, %d1, 8;
;;   setp.gt.u64 %p0, %d2, %len;
;;   @%p0 bra $L1;
;;   add.s64 %d3, %mem, %d1;
;;   cvt.u32.u64 %r1, %d3;
;;   and.b32 %r2, %r1, 1;
;;   setp.ne.s32 %p1, %r2, 0;
;;   @%p1 bra $L2;
;;   ld.global.s16 %d4, [%d3+6];
;; $L3:
;;   mov.b64 %d0, %d4;
;; $L0:
;;   st.param.b64 [ret], %fuel;
;;   st.param.b64 [ret+8], %d0;
;;   ret;
;; $L1:
;;   mov.b32 %tc, 5;
;;   mov.b32 %to, 42;
;;   bra $T;
;; $L2:
;;   add.s64 %d5, %d3, 6;
;;   {
;;   .param .b64 c0;
;;   .param .b32 cr;
;;   st.param.b64 [c0], %d5;
;;   call (cr), load16, (c0);
;;   ld.param.b32 %r3, [cr];
;;   }
;;   cvt.s64.s16 %d4, %r3;
;;   bra $L3;
;; $T:
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
