package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/logqueue"
	"github.com/bobnet-go/bobnet/transport/myrinet"
	"golang.org/x/sys/unix"
)

const labFabric = `With --fabric ranks are the hosts of a Myrinet in software: FILE says which hosts,
switches and links there are. Each host and each switch is a namespace, each link a
veth pair, and bobnet switch runs in each switch; one that is killed is started
again. Bobnet's programs use the driver myrinet there (BOBNET_DRIVER), whose mapper
finds the ways to the other hosts, and BOBNET_HOST, the host's name in FILE. Ready ones are one, two and fattree; bobnet map
--help says what such a file consists of.`

// startSwitches has a process in each switch of the lab, until stop is called or the lab
// is closed. failed tells that one does not work.
func startSwitches(ctx context.Context, l *lab.Lab, f *myrinet.File) (work context.Context, stop func(), err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, nil, fmt.Errorf("lab: finding this program, which is the switches: %w", err)
	}
	work, cancel := context.WithCancelCause(ctx)
	for i := range l.Switches() {
		p, err := startSwitch(l, f, program, i)
		if err != nil {
			cancel(err)
			return nil, nil, err
		}
		go keepSwitch(work, cancel, l, f, program, i, p)
	}
	return work, func() { cancel(nil) }, nil
}

func startSwitch(l *lab.Lab, f *myrinet.File, program string, i int) (*lab.Proc, error) {
	cmd := exec.Command(program, "switch", "--name", f.Switches[i], "--ports", fmt.Sprint(f.Ports))
	for _, p := range l.SwitchPorts(i) {
		cmd.Args = append(cmd.Args, "--port", fmt.Sprintf("%d=%s", p.Port, p.Interface))
	}
	cmd.Stderr = os.Stderr
	return l.StartSwitch(i, cmd)
}

// keepSwitch starts a switch again that was killed. One that ends by itself ends the lab.
func keepSwitch(ctx context.Context, fail context.CancelCauseFunc, l *lab.Lab, f *myrinet.File, program string, i int, p *lab.Proc) {
	log := logqueue.New(slog.Default()).Logger() // what nobody reads does not keep a switch from its start
	for {
		<-p.Done()
		code := p.Code()
		if ctx.Err() != nil {
			return
		}
		if !slices.Contains([]int{128 + int(unix.SIGKILL), 128 + int(unix.SIGTERM)}, code) {
			fail(fmt.Errorf("lab: switch %s has ended with exit code %d", f.Switches[i], code))
			return
		}
		log.Warn("a switch was killed, and is started again", "switch", f.Switches[i])
		var err error
		if p, err = startSwitch(l, f, program, i); err != nil {
			if !errors.Is(err, lab.ErrClosed) {
				fail(err)
			}
			return
		}
	}
}
