;; What handwritten modules of these tests have besides the template, beside which they stand: a test replaces the words in
;; capitals, and calls $edit, $veto or $refuse_with_file.
  (data (i32.const 24576) "NEEDLE")
  (data (i32.const 28672) "TEXT")
  (data (i32.const 32768) "FILE")
  ;; The result `veto` with a text.
  (func $veto (param $at i32) (param $length i32) (result i32)
    (i32.store (i32.const 32) (i32.const 1))
    (i32.store (i32.const 36) (i32.const 0))
    (i32.store (i32.const 40) (local.get $at))
    (i32.store (i32.const 44) (local.get $length))
    (i32.const 32))

  ;; The position of a text in another one, or -1.
  (func $find (param $in i32) (param $length i32) (param $what i32) (param $size i32) (result i32)
    (local $at i32) (local $same i32)
    (block $missing
      (loop $next
        (br_if $missing (i32.gt_u (i32.add (local.get $at) (local.get $size)) (local.get $length)))
        (local.set $same (i32.const 0))
        (block $differs
          (loop $compare
            (br_if $differs (i32.ne
              (i32.load8_u (i32.add (local.get $in) (i32.add (local.get $at) (local.get $same))))
              (i32.load8_u (i32.add (local.get $what) (local.get $same)))))
            (local.set $same (i32.add (local.get $same) (i32.const 1)))
            (br_if $compare (i32.lt_u (local.get $same) (local.get $size))))
          (return (local.get $at)))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $next)))
    (i32.const -1))

  ;; Replaces the first NEEDLE of the domain by TEXT, unless the domain has TEXT already.
  (func $edit (param $xml i32) (param $length i32) (result i32)
    (local $at i32) (local $out i32) (local $rest i32)
    (local.set $at
      (call $find (local.get $xml) (local.get $length) (i32.const 24576) (i32.const NEEDLE_LENGTH)))
    (if (i32.or
          (i32.eq (local.get $at) (i32.const -1))
          (i32.ne (i32.const -1)
            (call $find (local.get $xml) (local.get $length) (i32.const 28672) (i32.const TEXT_LENGTH))))
      (then (return (call $done (local.get $xml) (local.get $length)))))
    (local.set $out (global.get $free))
    (local.set $rest (i32.add (local.get $at) (i32.const NEEDLE_LENGTH)))
    (memory.copy (local.get $out) (local.get $xml) (local.get $at))
    (memory.copy (i32.add (local.get $out) (local.get $at)) (i32.const 28672) (i32.const TEXT_LENGTH))
    (memory.copy
      (i32.add (i32.add (local.get $out) (local.get $at)) (i32.const TEXT_LENGTH))
      (i32.add (local.get $xml) (local.get $rest))
      (i32.sub (local.get $length) (local.get $rest)))
    (call $done (local.get $out)
      (i32.sub (i32.add (local.get $length) (i32.const TEXT_LENGTH)) (i32.const NEEDLE_LENGTH))))

  ;; Refuses the VM with the content of FILE in the first directory. Traps if that cannot be read.
  (func $refuse_with_file (result i32)
    (if (call $open (i32.const 3) (i32.const 1) (i32.const 32768) (i32.const FILE_LENGTH) (i32.const 0)
          (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64))
      (then unreachable))
    (i32.store (i32.const 72) (i32.const 40960))
    (i32.store (i32.const 76) (i32.const 4096))
    (if (call $read (i32.load (i32.const 64)) (i32.const 72) (i32.const 1) (i32.const 80))
      (then unreachable))
    (call $veto (i32.const 40960) (i32.load (i32.const 80))))
