;; A function that makes calls spends fuel and depth at its entry. If a call returns negative fuel, the function
;; returns.
(module
  (func $leaf (param f32 f64) (result f64)
    (f64.add (f64.promote_f32 (local.get 0)) (local.get 1)))
  (func (export "call") (result f64)
    (call $leaf (f32.const 1) (f64.const -0x0p+0))))

;; --- what is emitted ---
;; .func (.param .align 8 .b8 ret[16]) f0 (.param .b64 inst, .param .b64 fuel, .param .b32 depth, .param .b32 a0, .param .b64 a1)
;; {
;;   .reg .b32 %r<1>;
;;   .reg .b64 %d<5>;
;;   .reg .pred %p<1>;
;;   .reg .b64 %inst, %fuel, %mem, %len, %st;
;;   .reg .b32 %depth, %tc, %to, %low;
;;   .reg .pred %sp;
;;   ld.param.b64 %inst, [inst];
;;   ld.param.b64 %fuel, [fuel];
;;   ld.param.b32 %depth, [depth];
;;   ld.param.b32 %r0, [a0];
;;   ld.param.b64 %d0, [a1];
;;   cvt.f64.f32 %d2, %r0;
;;   add.rn.f64 %d3, %d2, %d0;
;;   setp.nan.f64 %p0, %d3, %d3;
;;   selp.b64 %d4, 0x7ff8000000000000, %d3, %p0;
;;   mov.b64 %d1, %d4;
;; $L0:
;;   st.param.b64 [ret], %fuel;
;;   st.param.b64 [ret+8], %d1;
;;   ret;
;; }
;; .func (.param .align 8 .b8 ret[16]) f1 (.param .b64 inst, .param .b64 fuel, .param .b32 depth)
;; {
;;   .reg .b64 %d<2>;
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
;;   @%sp bra $L1;
;; $L3:
;;   add.s32 %fl, %fl, -1;
;;   mov.b64 %fuel, {%fl, %fh};
;;   setp.eq.s32 %sp, %depth, 0;
;;   @%sp bra $L4;
;;   add.s32 %depth, %depth, -1;
;;   {
;;   .param .b64 ci;
;;   .param .b64 cf;
;;   .param .b32 cd;
;;   st.param.b64 [ci], %inst;
;;   st.param.b64 [cf], %fuel;
;;   st.param.b32 [cd], %depth;
;;   .param .b32 c0;
;;   st.param.b32 [c0], 1065353216;
;;   .param .b64 c1;
;;   st.param.b64 [c1], -9223372036854775808;
;;   .param .align 8 .b8 cr[16];
;;   call (cr), f0, (ci, cf, cd, c0, c1);
;;   ld.param.b64 %fuel, [cr];
;;   ld.param.b64 %d1, [cr+8];
;;   }
;;   setp.lt.s64 %sp, %fuel, 0;
;;   @%sp bra $U;
;;   mov.b64 %d0, %d1;
;; $L0:
;;   st.param.b64 [ret], %fuel;
;;   st.param.b64 [ret+8], %d0;
;;   ret;
;; $L1:
;;   mov.b32 %to, 49;
;;   mov.b32 %tc, 11;
;;   setp.eq.s64 %sp, %fuel, 0;
;;   @%sp bra $S;
;;   mov.b64 {%fl, %fh}, %fuel;
;;   setp.eq.s32 %sp, %fl, 0;
;;   @%sp add.s32 %fh, %fh, -1;
;;   mov.b64 %fuel, {%fl, %fh};
;;   ld.relaxed.sys.global.b32 %tc, [%inst+12];
;;   setp.eq.s32 %sp, %tc, 0;
;;   @%sp bra $L2;
;;   mov.b64 {%fl, %fh}, %fuel;
;;   setp.eq.s32 %sp, %fl, 0;
;;   @%sp add.s32 %fh, %fh, 1;
;;   mov.b64 %fuel, {%fl, %fh};
;;   mov.b32 %tc, 12;
;;   bra $S;
;; $L2:
;;   bra $L3;
;; $L4:
;;   mov.b32 %to, 49;
;;   bra $K10;
;; $K10:
;;   mov.b32 %tc, 10;
;;   bra $T;
;; $T:
;;   add.s64 %fuel, %fuel, 1;
;; $S:
;;   st.global.b32 [%inst+0], %tc;
;;   mov.b32 %tc, 1;
;;   st.global.b32 [%inst+4], %tc;
;;   st.global.b32 [%inst+8], %to;
;;   st.global.b64 [%inst+16], %fuel;
;;   mov.b64 %fuel, -1;
;; $U:
;;   st.param.b64 [ret], %fuel;
;;   ret;
;; }
