package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"virt-hook/hooks"
)

// What Go's runtime and standard library ask of WASI.

// preStart does what the annotation "do" says, and vetoes with the result.
func preStart(vmi *hooks.VMI) error {
	do, _ := vmi.Annotation("do")
	switch do {
	case "random":
		var bytes [16]byte
		n, err := rand.Read(bytes[:])
		return hooks.Veto(fmt.Sprint(n, err, bytes != [16]byte{}))
	case "clock":
		before := time.Now()
		time.Sleep(2 * time.Millisecond)
		return hooks.Veto(fmt.Sprint(time.Since(before) >= 2*time.Millisecond, before.Year() >= 1970))
	case "goroutines":
		results := make(chan int)
		for i := range 100 {
			go func() { time.Sleep(time.Microsecond); results <- i }()
		}
		sum := 0
		for range 100 {
			sum += <-results
		}
		return hooks.Veto(fmt.Sprint(sum))
	case "pod":
		return podFacts()
	case "environment":
		return hooks.Veto(fmt.Sprint(len(os.Environ()), len(os.Args)))
	case "stdio":
		fmt.Println("on standard output")
		fmt.Fprintln(os.Stderr, "on standard error")
		return nil
	case "files":
		_, err := os.ReadFile("/etc/passwd")
		return hooks.Veto(fmt.Sprint(err))
	case "exit":
		os.Exit(3)
	case "panic":
		var nothing []int
		return hooks.Veto(fmt.Sprint(nothing[len(do)]))
	case "fatal":
		var locks map[string]int
		go func() { locks["x"] = 1 }()
		time.Sleep(time.Millisecond)
	case "garbage":
		return hooks.Veto(garbage())
	case "error":
		return fmt.Errorf("while %s: %w", do, errors.New("reason"))
	case "config":
		value, ok := hooks.Config("key")
		point, _ := hooks.Invocation("hook-point")
		return hooks.Veto(fmt.Sprint(value, ok, point))
	}
	return nil
}

// garbage fills the heap several times over, with the collector running, and writes through WASI's adapter between.
func garbage() string {
	lists := map[int][]string{}
	for round := range 200 {
		lists[round%10] = strings.Split(strings.Repeat("some text,", 5000), ",")
		fmt.Fprint(os.Stderr, ".")
	}
	total := 0
	for _, list := range lists {
		total += len(list)
	}
	return fmt.Sprint(total)
}
