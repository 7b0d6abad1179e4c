;; At the end of a block, the compiler keeps the facts about an address that hold on every path to it: here that eight
;; bytes are in bounds, their address and their alignment, so that the following load is not checked again. It knows
;; nothing about a local that one half has assigned.
(module
  (memory 1)
  (func (export "known") (param i32 i32) (result i32)
    (if (i32.load (local.get 0))
      (then (local.set 1 (i32.load offset=8 (local.get 0))))
      (else (drop (i32.load offset=4 (local.get 0))) (drop (i32.load (local.get 1)))))
    (i32.add (i32.load offset=4 (local.get 0)) (i32.load (local.get 1)))))

;; --- what is emitted ---
;; .func (.param .align 8 .b8 ret[16]) f0 (.param .b64 inst, .param .b64 fuel, .param .b32 depth, .param .b64 mem, .param .b32 a0, .param .b32 a1)
;; {
;;   .reg .b32 %r<33>;
;;   .reg .b64 %d<9>;
;;   .reg .pred %p<9>;
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
;;   ld.param.b32 %r1, [a1];
;;   cvt.u64.u32 %d0, %r0;
;;   add.s64 %d1, %mem, %d0;
;;   sub.s32 %r3, %low, 4;
;;   setp.gt.u32 %p0, %r0, %r3;
;;   @%p0 bra $L1;
;;   and.b32 %r4, %r0, 3;
;;   setp.ne.s32 %p1, %r4, 0;
;;   and.b64 %d2, %d1, -4;
;;   shl.b32 %r5, %r4, 3;
;;   ld.global.u32 %r7, [%d2+0];
;;   mov.b32 %r8, 0;
;;   @%p1 ld.global.u32 %r8, [%d2+4];
;;   shf.r.wrap.b32 %r7, %r7, %r8, %r5;
;;   mov.b32 %r6, %r7;
;;   setp.ne.s32 %p2, %r6, 0;
;;   @!%p2 bra $L3;
;;   sub.s32 %r9, %low, 12;
;;   setp.gt.u32 %p3, %r0, %r9;
;;   @%p3 bra $L4;
;;   ld.global.u32 %r11, [%d2+8];
;;   mov.b32 %r12, 0;
;;   @%p1 ld.global.u32 %r12, [%d2+12];
;;   shf.r.wrap.b32 %r11, %r11, %r12, %r5;
;;   mov.b32 %r10, %r11;
;;   mov.b32 %r1, %r10;
;;   bra $L2;
;; $L3:
;;   sub.s32 %r13, %low, 8;
;;   setp.gt.u32 %p4, %r0, %r13;
;;   @%p4 bra $L5;
;;   ld.global.u32 %r15, [%d2+4];
;;   mov.b32 %r16, 0;
;;   @%p1 ld.global.u32 %r16, [%d2+8];
;;   shf.r.wrap.b32 %r15, %r15, %r16, %r5;
;;   mov.b32 %r14, %r15;
;;   cvt.u64.u32 %d3, %r1;
;;   add.s64 %d4, %mem, %d3;
;;   sub.s32 %r17, %low, 4;
;;   setp.gt.u32 %p5, %r1, %r17;
;;   @%p5 bra $L6;
;;   and.b32 %r18, %r1, 3;
;;   setp.ne.s32 %p6, %r18, 0;
;;   and.b64 %d5, %d4, -4;
;;   shl.b32 %r19, %r18, 3;
;;   ld.global.u32 %r21, [%d5+0];
;;   mov.b32 %r22, 0;
;;   @%p6 ld.global.u32 %r22, [%d5+4];
;;   shf.r.wrap.b32 %r21, %r21, %r22, %r19;
;;   mov.b32 %r20, %r21;
;; $L2:
;;   ld.global.u32 %r24, [%d2+4];
;;   mov.b32 %r25, 0;
;;   @%p1 ld.global.u32 %r25, [%d2+8];
;;   shf.r.wrap.b32 %r24, %r24, %r25, %r5;
;;   mov.b32 %r23, %r24;
;;   cvt.u64.u32 %d6, %r1;
;;   add.s64 %d7, %mem, %d6;
;;   sub.s32 %r26, %low, 4;
;;   setp.gt.u32 %p7, %r1, %r26;
;;   @%p7 bra $L7;
;;   and.b32 %r27, %r1, 3;
;;   setp.ne.s32 %p8, %r27, 0;
;;   and.b64 %d8, %d7, -4;
;;   shl.b32 %r28, %r27, 3;
;;   ld.global.u32 %r30, [%d8+0];
;;   mov.b32 %r31, 0;
;;   @%p8 ld.global.u32 %r31, [%d8+4];
;;   shf.r.wrap.b32 %r30, %r30, %r31, %r28;
;;   mov.b32 %r29, %r30;
;;   add.s32 %r32, %r23, %r29;
;;   mov.b32 %r2, %r32;
;; $L0:
;;   st.param.b64 [ret], %fuel;
;;   st.param.b32 [ret+8], %r2;
;;   ret;
;; $L1:
;;   mov.b32 %to, 44;
;;   bra $K5;
;; $L4:
;;   mov.b32 %to, 51;
;;   bra $K5;
;; $L5:
;;   mov.b32 %to, 59;
;;   bra $K5;
;; $L6:
;;   mov.b32 %to, 65;
;;   bra $K5;
;; $L7:
;;   mov.b32 %to, 77;
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
