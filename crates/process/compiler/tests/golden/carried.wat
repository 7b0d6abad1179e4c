;; Functions pass the first mutable global and the memory's address in registers. A memory that cannot grow has
;; constant bounds.
(module
  (memory 1 1)
  (global $stack (mut i32) (i32.const 1024))
  (func $down (export "down") (param i32) (result i32)
    (global.set $stack (i32.sub (global.get $stack) (i32.const 16)))
    (i32.store (global.get $stack) (local.get 0))
    (if (local.get 0) (then (drop (call $down (i32.sub (local.get 0) (i32.const 1))))))
    (i32.load (global.get $stack))
    (global.set $stack (i32.add (global.get $stack) (i32.const 16)))))

;; --- what is emitted ---
;; .func (.param .align 8 .b8 ret[24]) f0 (.param .b64 inst, .param .b64 fuel, .param .b32 depth, .param .b32 carry, .param .b64 mem, .param .b32 a0)
;; {
;;   .reg .b32 %r<19>;
;;   .reg .b64 %d<5>;
;;   .reg .pred %p<5>;
;;   .reg .b64 %inst, %fuel, %mem, %len, %st;
;;   .reg .b32 %fl, %fh, %ft, %lim;
;;   .reg .b32 %depth, %tc, %to, %low;
;;   .reg .pred %sp;
;;   ld.param.b64 %inst, [inst];
;;   ld.param.b64 %fuel, [fuel];
;;   ld.param.b32 %depth, [depth];
;;   .reg .b32 %carry;
;;   ld.param.b32 %carry, [carry];
;;   ld.param.b64 %mem, [mem];
;;   mov.b64 %len, 65536;
;;   cvt.u32.u64 %low, %len;
;;   mov.b64 {%fl, %fh}, %fuel;
;;   and.b32 %ft, %fl, 1023;
;;   setp.eq.s32 %sp, %ft, 0;
;;   @%sp bra $L7;
;; $L9:
;;   add.s32 %fl, %fl, -1;
;;   mov.b64 %fuel, {%fl, %fh};
;;   setp.eq.s32 %sp, %depth, 0;
;;   @%sp bra $L10;
;;   add.s32 %depth, %depth, -1;
;;   ld.param.b32 %r0, [a0];
;;   mov.b32 %r2, %carry;
;;   sub.s32 %r3, %r2, 16;
;;   mov.b32 %carry, %r3;
;;   mov.b32 %r4, %carry;
;;   cvt.u64.u32 %d0, %r4;
;;   add.s64 %d1, %mem, %d0;
;;   sub.s32 %r5, %low, 4;
;;   setp.gt.u32 %p0, %r4, %r5;
;;   @%p0 bra $L1;
;;   and.b32 %r6, %r4, 3;
;;   setp.ne.s32 %p1, %r6, 0;
;;   @%p1 bra $L2;
;;   st.global.b32 [%d1+0], %r0;
;; $L3:
;;   setp.ne.s32 %p2, %r0, 0;
;;   @!%p2 bra $L5;
;;   sub.s32 %r8, %r0, 1;
;;   {
;;   .param .b64 ci;
;;   .param .b64 cf;
;;   .param .b32 cd;
;;   st.param.b64 [ci], %inst;
;;   st.param.b64 [cf], %fuel;
;;   st.param.b32 [cd], %depth;
;;   .param .b32 cg;
;;   st.param.b32 [cg], %carry;
;;   .param .b64 cm;
;;   st.param.b64 [cm], %mem;
;;   .param .b32 c0;
;;   st.param.b32 [c0], %r8;
;;   .param .align 8 .b8 cr[24];
;;   call (cr), f0, (ci, cf, cd, cg, cm, c0);
;;   ld.param.b64 %fuel, [cr];
;;   ld.param.b32 %carry, [cr+16];
;;   ld.param.b32 %r9, [cr+8];
;;   }
;;   setp.lt.s64 %sp, %fuel, 0;
;;   @%sp bra $U;
;; $L5:
;; $L4:
;;   mov.b32 %r10, %carry;
;;   cvt.u64.u32 %d2, %r10;
;;   add.s64 %d3, %mem, %d2;
;;   sub.s32 %r11, %low, 4;
;;   setp.gt.u32 %p3, %r10, %r11;
;;   @%p3 bra $L6;
;;   and.b32 %r12, %r10, 3;
;;   setp.ne.s32 %p4, %r12, 0;
;;   and.b64 %d4, %d3, -4;
;;   shl.b32 %r13, %r12, 3;
;;   ld.global.u32 %r15, [%d4+0];
;;   mov.b32 %r16, 0;
;;   @%p4 ld.global.u32 %r16, [%d4+4];
;;   shf.r.wrap.b32 %r15, %r15, %r16, %r13;
;;   mov.b32 %r14, %r15;
;;   mov.b32 %r17, %carry;
;;   add.s32 %r18, %r17, 16;
;;   mov.b32 %carry, %r18;
;;   mov.b32 %r1, %r14;
;; $L0:
;;   st.param.b64 [ret], %fuel;
;;   st.param.b32 [ret+16], %carry;
;;   st.param.b32 [ret+8], %r1;
;;   ret;
;; $L1:
;;   mov.b32 %to, 61;
;;   bra $K5;
;; $L2:
;;   st.global.b8 [%d1+0], %r0;
;;   shr.u32 %r7, %r0, 8;
;;   st.global.b8 [%d1+1], %r7;
;;   shr.u32 %r7, %r0, 16;
;;   st.global.b8 [%d1+2], %r7;
;;   shr.u32 %r7, %r0, 24;
;;   st.global.b8 [%d1+3], %r7;
;;   bra $L3;
;; $L6:
;;   mov.b32 %to, 79;
;;   bra $K5;
;; $L7:
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
;;   @%sp bra $L8;
;;   mov.b64 {%fl, %fh}, %fuel;
;;   setp.eq.s32 %sp, %fl, 0;
;;   @%sp add.s32 %fh, %fh, 1;
;;   mov.b64 %fuel, {%fl, %fh};
;;   mov.b32 %tc, 12;
;;   bra $S;
;; $L8:
;;   bra $L9;
;; $L10:
;;   mov.b32 %to, 49;
;;   bra $K10;
;; $K5:
;;   mov.b32 %tc, 5;
;;   bra $T;
;; $K10:
;;   mov.b32 %tc, 10;
;;   bra $T;
;; $T:
;;   add.s64 %fuel, %fuel, 1;
;; $S:
;;   st.global.b32 [%inst+0], %tc;
;;   mov.b32 %tc, 0;
;;   st.global.b32 [%inst+4], %tc;
;;   st.global.b32 [%inst+8], %to;
;;   st.global.b64 [%inst+16], %fuel;
;;   st.global.b32 [%inst+64], %carry;
;;   mov.b64 %fuel, -1;
;; $U:
;;   st.param.b64 [ret], %fuel;
;;   ret;
;; }
