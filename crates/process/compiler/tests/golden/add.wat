;; Arithmetic that cannot trap uses only registers: it reads no header and spends no fuel.
(module
  (func (export "add") (param i32 i32) (result i32)
    (i32.add (local.get 0) (local.get 1))))

;; --- what is emitted ---
;; .func (.param .align 8 .b8 ret[16]) f0 (.param .b64 inst, .param .b64 fuel, .param .b32 depth, .param .b32 a0, .param .b32 a1)
;; {
;;   .reg .b32 %r<4>;
;;   .reg .b64 %inst, %fuel, %mem, %len, %st;
;;   .reg .b32 %depth, %tc, %to, %low;
;;   .reg .pred %sp;
;;   ld.param.b64 %inst, [inst];
;;   ld.param.b64 %fuel, [fuel];
;;   ld.param.b32 %depth, [depth];
;;   ld.param.b32 %r0, [a0];
;;   ld.param.b32 %r1, [a1];
;;   add.s32 %r3, %r0, %r1;
;;   mov.b32 %r2, %r3;
;; $L0:
;;   st.param.b64 [ret], %fuel;
;;   st.param.b32 [ret+8], %r2;
;;   ret;
;; }
