// Command fabric simulates the hosts of a Myrinet in virtual time. They send packets to each other
// while links and switches fail and return. A mapper on the hosts finds the working parts and gives
// the cards new routes.
//
//	go run ./examples/fabric -out map.svg
//	go run ./examples/fabric -fabric FILE -time 10s -seed 7
//
// It reports each failure, each return and each new map. At the end it prints the traffic of each
// route, and writes the last map as a picture. "bobnet map -h" explains the format of a file for
// another network. The same seed gives the same run.
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/bobnet-go/bobnet/internal/examples/program"
	"github.com/bobnet-go/bobnet/internal/myrinet/mapper"
	"github.com/bobnet-go/bobnet/internal/myrinet/topology"
	"github.com/bobnet-go/bobnet/internal/userfile"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"github.com/bobnet-go/bobnet/transport/sim"
)

//go:embed tree.fabric
var tree string

// options are the flags.
type options struct {
	fabric, out string
	time        time.Duration
	seed        uint64
}

var about = program.About{
	Name: "fabric",
	Does: `Fabric simulates the hosts of a Myrinet in virtual time, while links and switches fail and
return. A mapper finds what is left and gives the cards new routes.`,
	Args: "-out map.svg",
}

func main() {
	var o options
	flag.StringVar(&o.fabric, "fabric", "", "the `FILE` that describes the network (default a fat tree of 8 hosts)")
	flag.StringVar(&o.out, "out", "", "write the last map to this `FILE`, as SVG")
	flag.DurationVar(&o.time, "time", 5*time.Second, "how long things fail, in virtual time")
	flag.Uint64Var(&o.seed, "seed", 1, "of everything random")
	about.Main(o.check, func(context.Context) error { return run(o, program.Stdout) })
}

// check validates the flags.
func (o *options) check() error {
	if o.time <= 0 {
		return fmt.Errorf("-time %v: want some time", o.time)
	}
	return nil
}

func run(o options, out io.Writer) error {
	if err := userfile.Check(o.out); err != nil {
		return err
	}
	text, name := tree, "tree.fabric"
	if o.fabric != "" {
		b, err := userfile.Read(o.fabric, 16<<20)
		if err != nil {
			return err
		}
		text, name = string(b), o.fabric
	}
	f, err := topology.ParseFile(text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if len(f.Hosts) < 2 || len(f.Cables) == 0 {
		return fmt.Errorf("%s: want two hosts at least, and cables", name)
	}
	s, err := newScene(o, &f.Topology, out)
	if err != nil {
		return err
	}
	last, err := s.play(o.time)
	if err != nil {
		return err
	}
	s.table()
	if o.out == "" {
		return nil
	}
	return userfile.Write(o.out, []byte(mapper.SVG(&last.Topology, last.Summary())), 0o644)
}

// newScene builds the network.
func newScene(o options, t *topology.Topology, out io.Writer) (*scene, error) {
	w := sim.New(sim.Options{Seed: o.seed})
	f, err := myrinet.New(w, myrinet.Options{Seed: o.seed, Ports: t.Ports})
	if err != nil {
		return nil, err
	}
	n, err := mapper.NewNetwork(w, f, t, func(i int) myrinet.MapperOptions {
		return myrinet.MapperOptions{ID: mapper.HostID(i), Name: t.Hosts[i], Seed: o.seed<<16 + uint64(i), Ports: t.Ports, Period: 100 * time.Millisecond,
			Logger: slog.New(slog.DiscardHandler)} // the scene reports the events
	})
	if err != nil {
		return nil, err
	}
	return setScene(w, n, o.seed, out), nil
}
