package lanai_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/lanai"
)

// sharer is a child that writes to the board of process 1 as often as it can, from a line of its input to
// the next one, and prints how often that was.
const sharer = "sharer "

// benchSize is the length of its messages in bytes.
const benchSize = 64

// shareCard is the main of a sharer, which is the process of that number.
func shareCard(ctx context.Context, c *lanai.Card, number string) error {
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		return err
	}
	p, err := vmmc.Open(ctx, &vmmc.Config{Card: c, Process: uint32(n)})
	if err != nil {
		return err
	}
	i, err := p.Import(ctx, vmmc.Name{Process: 1, ID: 7})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	b := make([]byte, benchSize)
	for in := bufio.NewReader(os.Stdin); ; {
		if _, err := in.ReadString('\n'); err != nil {
			return err
		}
		over := make(chan struct{})
		go func() {
			in.ReadString('\n')
			close(over)
		}()
		sent := 0
		for ended := false; !ended; {
			if err := p.SendMsg(ctx, b, i.Addr()); err != nil {
				return err
			}
			sent++
			select {
			case <-over:
				ended = true
			default:
			}
		}
		fmt.Println(sent)
	}
}

// BenchmarkShares has four programs of one served card write to a board as often as they can. It reports how far the
// least and the most that one writes are from a quarter.
func BenchmarkShares(b *testing.B) {
	const programs, span = 4, time.Second
	veth := vethtest.New(b, 1500)
	start(b, veth, 0, "card")
	start(b, veth, 1, "exporter")
	type program struct {
		in  io.Writer
		out *bufio.Reader
	}
	var all [programs]program
	for k := range all {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+sharer+strconv.Itoa(2+k))
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			b.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = veth.In(0, cmd.Start)
		}
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
		})
		all[k] = program{in, bufio.NewReader(out)}
		if _, err := all[k].out.ReadString('\n'); err != nil {
			b.Fatalf("program %d does not start: %v", k, err)
		}
	}
	var sent [programs]int
	for b.Loop() {
		for _, p := range all {
			fmt.Fprintln(p.in)
		}
		<-time.After(span)
		for _, p := range all {
			fmt.Fprintln(p.in)
		}
		for k, p := range all {
			line, err := p.out.ReadString('\n')
			n := 0
			if err == nil {
				n, err = strconv.Atoi(strings.TrimSpace(line))
			}
			if err != nil {
				b.Fatal(err)
			}
			sent[k] += n
		}
	}
	total := 0
	for _, n := range sent {
		total += n
	}
	b.ReportMetric(float64(slices.Min(sent[:]))*programs/float64(total), "least")
	b.ReportMetric(float64(slices.Max(sent[:]))*programs/float64(total), "most")
	b.ReportMetric(float64(total)/float64(b.N)/span.Seconds(), "writes/s")
	b.ReportMetric(0, "ns/op")
}
