// BEP-10's loops in Go: loops LOOP FILE SCHEMA... SECONDS prints how often it went round, the time, and
// the processor time.
//
// schema: each text is parsed and checked against every schema by gojsonschema, as the original's loop
// does (the text is parsed anew for each schema). fulfillment: the Go crypto-conditions package is on no
// module proxy, so this is its work with the standard library only: base64url, DER with encoding/asn1,
// and back. It checks less than the package, so it is faster.
package main

import (
	"encoding/asn1"
	"encoding/base64"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/xeipuuv/gojsonschema"
)

type ed25519 struct {
	PublicKey []byte `asn1:"tag:0"`
	Signature []byte `asn1:"tag:1"`
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func processorSeconds() float64 {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

func main() {
	loop, file := os.Args[1], os.Args[2]
	schemas := os.Args[3 : len(os.Args)-1]
	seconds, err := strconv.ParseFloat(os.Args[len(os.Args)-1], 64)
	check(err)
	bytes, err := os.ReadFile(file)
	check(err)
	text := string(bytes)
	var round func()
	switch loop {
	case "schema":
		var compiled []*gojsonschema.Schema
		for _, path := range schemas {
			rules, err := os.ReadFile(path)
			check(err)
			schema, err := gojsonschema.NewSchema(gojsonschema.NewStringLoader(string(rules)))
			check(err)
			compiled = append(compiled, schema)
		}
		round = func() {
			for _, schema := range compiled {
				result, err := schema.Validate(gojsonschema.NewStringLoader(text))
				check(err)
				if !result.Valid() {
					check(fmt.Errorf("refused: %v", result.Errors()))
				}
			}
		}
	case "fulfillment":
		round = func() {
			der, err := base64.RawURLEncoding.DecodeString(text)
			check(err)
			var read ed25519
			_, err = asn1.UnmarshalWithParams(der, &read, "tag:4")
			check(err)
			der, err = asn1.MarshalWithParams(read, "tag:4")
			check(err)
			if base64.RawURLEncoding.EncodeToString(der) != text {
				check(fmt.Errorf("another text"))
			}
		}
	default:
		check(fmt.Errorf("no loop %q", loop))
	}
	start, before := time.Now(), processorSeconds()
	rounds := 0
	for time.Since(start).Seconds() < seconds {
		for i := 0; i < 100; i++ {
			round()
		}
		rounds += 100
	}
	fmt.Println(rounds, time.Since(start).Seconds(), processorSeconds()-before)
}
