//! `forth` on programs whose results are known.

use everwarp_testkit::cases;

use crate::{Case, Ended, data, run};

/// Cases that run guests, on either engine.
pub(crate) const ON_BOTH: &[(&str, Case)] = cases![
    words_have_their_defined_effect,
    programs_of_some_length_run_from_files,
    errors_name_their_line,
    an_endless_program_ends_when_its_fuel_is_spent
];

fn forth(program: &str) -> Ended {
    run("forth", &[], &[], program.as_bytes())
}

fn words_have_their_defined_effect() {
    for (program, out) in [
        (
            "7 2 + . 7 2 - . 7 2 * . 7 2 / . 7 2 mod . -7 2 / . -7 2 mod .",
            "9 5 14 3 1 -3 -1 ",
        ),
        (
            "-2147483648 -1 / . -2147483648 -1 mod . 2147483647 1+ .",
            "-2147483648 0 -2147483648 ",
        ),
        (
            "5 negate . -5 abs . 3 9 min . 3 9 max . 4 1- . 21 2* . -7 2/ .",
            "-5 5 3 9 3 42 -4 ",
        ),
        (
            "12 10 and . 12 10 or . 12 10 xor . 0 invert . 1 5 lshift . -16 2 rshift .",
            "8 14 6 -1 32 -4 ",
        ),
        (
            "1 1 = . 1 2 <> . 1 2 < . 1 2 > . 2 2 <= . 2 3 >= . 0 0= . 3 0< . 3 0> .",
            "-1 -1 -1 0 -1 0 -1 0 -1 ",
        ),
        (
            "1 2 dup . . . 1 2 swap . . 1 2 over . . . 1 2 3 rot . . .",
            "2 2 1 1 2 1 2 1 1 3 2 ",
        ),
        (
            "1 2 nip . 1 2 tuck . . . 1 2 2dup . . . . 1 2 3 2drop . depth .",
            "2 2 1 2 2 1 2 1 1 0 ",
        ),
        (
            "0 ?dup . 5 ?dup . . depth . true . false .",
            "0 5 5 0 -1 0 ",
        ),
        (
            "variable a variable b 5 a ! 6 b ! 2 a +! a @ . b @ . here .",
            "7 6 8 ",
        ),
        (
            "create t 1 , 2 , 300 , t cell+ @ . t 2 cells + c@ . 65 t c! t @ .",
            "2 44 65 ",
        ),
        (
            "10 constant ten ten ten * . $ff . $FFFFFFFF .",
            "100 255 -1 ",
        ),
        (
            ".\" some  text\" 33 emit space 65 emit cr ( a comment ) \\ and another\n1 .",
            "some  text! A\n1 ",
        ),
        (": sq dup * ; : Quad SQ sq ; 3 QUAD .", "81 "),
        (": f 1 >r 2 >r r@ . r> . r> . ; f", "2 2 1 "),
        (
            ": f if 1 else 2 then . ; true f false f : g 0= if 3 . then ; 0 g 1 g",
            "1 2 3 ",
        ),
        (": f 5 begin dup . 1- dup 0= until drop ; f", "5 4 3 2 1 "),
        (
            ": f begin dup while dup . 1- repeat drop ; 3 f 0 f",
            "3 2 1 ",
        ),
        (
            ": f 4 0 do i . loop ; f : g 0 4 do i . -1 +loop ; g",
            "0 1 2 3 4 3 2 1 0 ",
        ),
        (
            ": f 10 0 do i . 3 +loop ; f : g 0 0 ?do i . loop 9 . ; g",
            "0 3 6 9 9 ",
        ),
        (": f 2 0 do 3 1 do i j 10 * + . loop loop ; f", "1 2 11 12 "),
        (
            ": f 9 0 do i 4 = if leave then i . loop 7 . ; f",
            "0 1 2 3 7 ",
        ),
        (
            ": f 9 0 do i 2 = if unloop exit then i . loop 7 . ; f",
            "0 1 ",
        ),
        (": f begin 1+ dup 5 > if exit then again ; 0 f .", "6 "),
        (": + - ; 5 3 + .", "2 "),
    ] {
        assert_eq!(forth(program), Ended::new(0, out, ""), "{program}");
    }
}

fn programs_of_some_length_run_from_files() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let library = "
        : fib dup 2 < if exit then dup 1- recurse swap 2 - recurse + ;
        : gcd begin ?dup while tuck mod repeat ;
        : collatz 0 swap begin dup 1 > while
            dup 1 and if 3 * 1+ else 2/ then swap 1+ swap repeat drop ;
        10000 constant size
        create sieve size allot
        : marked sieve + c@ ;
        : mark size swap 2dup dup * ?do 1 i sieve + c! dup +loop 2drop ;
        : primes 100 2 do i marked 0= if i mark then loop
            0 size 2 do i marked 0= if 1+ then loop ;";
    let program = "
        20 fib . 1071 462 gcd . 27 collatz . primes . cr
        : lines 400 0 do .\" line \" i . cr loop ; lines";
    for (name, text) in [("library", library), ("program", program)] {
        std::fs::write(folder.path().join(name), text).expect("the folder is writable");
    }
    let given = data(folder.path());
    let args = ["/data/library", "/data/program"];
    let ended = run("forth", &["--dir", &given], &args, b"");
    let mut out = "6765 21 111 1229 \n".to_owned();
    for n in 0..400 {
        out += &format!("line {n} \n");
    }
    assert_eq!(ended, Ended::new(0, &out, ""));
}

fn errors_name_their_line() {
    for (program, says) in [
        ("1 2\n+ + .", "2: the stack holds too few cells"),
        ("1 . \n\n1 0 /", "3: a division by zero"),
        ("1 0 mod", "1: a division by zero"),
        (": f recurse 1 ;\nf", "2: the return stack is full"),
        (": f begin 1 again ; f", "1: the stack is full"),
        ("9 @", "1: there is no memory at this address"),
        (
            "variable a -1 a 1+ !",
            "1: there is no memory at this address",
        ),
        (
            "1048577 allot",
            "1: a program may allot from 0 to 1,048,576 bytes",
        ),
        (
            "-1 allot",
            "1: a program may allot from 0 to 1,048,576 bytes",
        ),
        ("r>", "1: the return stack holds too few cells"),
        (": f 1000 >r ; f", "1: a return to no word"),
        ("1 Frob", "1: `Frob` is no word"),
        ("4294967296", "1: `4294967296` is no word"),
        ("if", "1: `if` can only stand within a definition"),
        (": f then ;", "1: `then` does not match what is open"),
        (": f if ;", "1: `;` does not match what is open"),
        (": f leave ;", "1: `leave` stands in no loop"),
        (": f\n1 ", "2: `f` has no `;`"),
        (": f : g ;", "1: `f` has no `;` yet"),
        (":", "1: a name is due here"),
        (
            ": f variable x ;",
            "1: this cannot stand within a definition",
        ),
        ("( no end", "1: a `(` has no `)`"),
        (".\" no end", "1: a text has no end"),
    ] {
        let ended = forth(program);
        assert_eq!(ended.err, format!("forth: -:{says}\n"), "{program}");
        assert_eq!(ended.code, 1);
    }
    // The output before the error is there.
    assert_eq!(forth("5 . 1 0 /").out, "5 ");
}

fn an_endless_program_ends_when_its_fuel_is_spent() {
    let ended = run("forth", &["--fuel", "1000000"], &[], b": f begin again ; f");
    assert_eq!((ended.code, ended.out.as_str()), (1, ""));
    assert!(ended.err.contains("out of fuel"), "{}", ended.err);
}
