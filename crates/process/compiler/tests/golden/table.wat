;; The values that a branch carries are copied on a separate edge for each target.
(module
  (func (export "switch") (param i32) (result i32)
    (block $b (result i32)
      (block $a (result i32)
        (br_table $a $b $a $b $a (i32.const 7) (local.get 0)))
      (i32.add (i32.const 10)))))

;; --- what is emitted ---
;; .func (.param .align 8 .b8 ret[16]) f0 (.param .b64 inst, .param .b64 fuel, .param .b32 depth, .param .b32 a0)
;; {
;;   .reg .b32 %r<6>;
;;   .reg .b64 %inst, %fuel, %mem, %len, %st;
;;   .reg .b32 %depth, %tc, %to, %low;
;;   .reg .pred %sp;
;;   ld.param.b64 %inst, [inst];
;;   ld.param.b64 %fuel, [fuel];
;;   ld.param.b32 %depth, [depth];
;;   ld.param.b32 %r0, [a0];
;;   min.u32 %r4, %r0, 4;
;; $L5: .branchtargets $L3, $L4, $L3, $L4, $L3;
;;   brx.idx %r4, $L5;
;; $L3:
;;   mov.b32 %r3, 7;
;;   bra $L2;
;; $L4:
;;   mov.b32 %r2, 7;
;;   bra $L1;
;; $L2:
;;   add.s32 %r5, %r3, 10;
;;   mov.b32 %r2, %r5;
;; $L1:
;;   mov.b32 %r1, %r2;
;; $L0:
;;   st.param.b64 [ret], %fuel;
;;   st.param.b32 [ret+8], %r1;
;;   ret;
;; }
