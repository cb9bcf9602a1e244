// Package program contains the code that the main functions of the examples share: help, flags,
// interrupts, and the place among the ranks.
package program

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/bobnet-go/bobnet/internal/examples/place"
	"github.com/bobnet-go/bobnet/internal/userfile"
)

// Stdout is the standard output of an example. The first error of writing ends the example with
// exit code 1.
var Stdout = userfile.Keep(os.Stdout)

// About describes an example to its user.
type About struct {
	Name  string // name of the directory and of the program
	Does  string // description, one or two sentences
	Ranks int    // number of ranks in the command that starts it; 0 for a program that needs no bobnet lab
	Args  string // in that line
}

// Main parses the flags, calls check, if it is not nil, to reject inconsistent flags, and calls run
// with a context that ends at an interrupt. An error ends the process with exit code 1, and an
// invalid flag with 2. With -help Main prints the description of the example and the command that
// starts it.
func (a About) Main(check func() error, run func(ctx context.Context) error) {
	log.SetFlags(0)
	log.SetPrefix(a.Name + ": ")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "%s\n\nTo start it:\n\n  %s\n\nFlags:\n\n", a.Does, a.line(os.Args[0], a.Ranks))
		flag.PrintDefaults()
	}
	if flag.Parse(); flag.NArg() > 0 {
		a.refuse(fmt.Errorf("%q: want flags only; see -help", flag.Args()))
	}
	if check != nil {
		if err := check(); err != nil {
			a.refuse(err)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // a second interrupt ends a run that ignores ctx
	if err := cmp.Or(run(ctx), Stdout.Err()); err != nil {
		log.Fatal(err)
	}
}

// MetricsFlag defines the flag -metrics, the address of metrics.Collector.Instrument.
func MetricsFlag() *string {
	return flag.String("metrics", os.Getenv("BOBNET_METRICS"), "serve Prometheus metrics at `ADDR`; bobnet lab --metrics sets it")
}

// refuse ends the process because of its flags.
func (a About) refuse(err error) {
	log.Print(err)
	os.Exit(2)
}

// Find returns this process's place among the ranks. It fails at once if there are fewer than least
// ranks, or if several ranks are needed and neither a launcher nor BOBNET_RANK sets the rank. The
// error contains a command that starts enough ranks.
func (a About) Find(least int) (place.Place, error) {
	at, err := place.Find(least)
	if errors.Is(err, place.ErrAlone) || err == nil && at.Size < least {
		ranks := fmt.Sprint(least, " ranks")
		if a.Ranks > least {
			ranks = fmt.Sprint("at least ", ranks)
		}
		return at, fmt.Errorf("needs %s: %s", ranks, a.line(os.Args[0], a.Ranks))
	}
	return at, err
}

// line returns the command that starts the example with the given number of ranks. It has the form
// in which this process was started: "go run", which builds into a temporary directory, or the
// program's path.
func (a About) line(program string, ranks int) string {
	bobnet := "bobnet"
	if strings.Contains(program, string(filepath.Separator)+"go-build") {
		bobnet, program = "go run ./cmd/bobnet", "go run ./examples/"+a.Name
	}
	line := program
	if ranks > 0 {
		line = fmt.Sprintf("%s lab -n %d -- %s", bobnet, ranks, program)
	}
	return strings.TrimSpace(line + " " + a.Args)
}
