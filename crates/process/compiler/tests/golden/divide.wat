;; A trap is a branch to code after the function's body, which records the trap in the header and returns negative
;; fuel.
(module
  (func (export "divide") (param i32 i32) (result i32)
    (i32.div_s (local.get 0) (local.get 1))))

;; --- what is emitted ---
;; .func (.param .align 8 .b8 ret[16]) f0 (.param .b64 inst, .param .b64 fuel, .param .b32 depth, .param .b32 a0, .param .b32 a1)
;; {
;;   .reg .b32 %r<4>;
;;   .reg .pred %p<3>;
;;   .reg .b64 %inst, %fuel, %mem, %len, %st;
;;   .reg .b32 %depth, %tc, %to, %low;
;;   .reg .pred %sp;
;;   ld.param.b64 %inst, [inst];
;;   ld.param.b64 %fuel, [fuel];
;;   ld.param.b32 %depth, [depth];
;;   ld.param.b32 %r0, [a0];
;;   ld.param.b32 %r1, [a1];
;;   setp.eq.s32 %p0, %r1, 0;
;;   @%p0 bra $L1;
;;   setp.eq.s32 %p1, %r0, 0x80000000;
;;   setp.eq.and.s32 %p2, %r1, -1, %p1;
;;   @%p2 bra $L2;
;;   div.s32 %r3, %r0, %r1;
;;   mov.b32 %r2, %r3;
;; $L0:
;;   st.param.b64 [ret], %fuel;
;;   st.param.b32 [ret+8], %r2;
;;   ret;
;; $L1:
;;   mov.b32 %to, 42;
;;   bra $K2;
;; $L2:
;;   mov.b32 %to, 42;
;;   bra $K3;
;; $K2:
;;   mov.b32 %tc, 2;
;;   bra $T;
;; $K3:
;;   mov.b32 %tc, 3;
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
