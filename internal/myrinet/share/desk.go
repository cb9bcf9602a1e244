package share

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/internal/admission"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/passfd"
	"github.com/bobnet-go/bobnet/internal/runsocket"
)

// Desk is where programs come to a card that a process serves, whatever control program the card
// runs. Each has a connection for as long as it uses the card.
type Desk struct {
	listener *net.UnixListener
	anyUser  bool
	programs *admission.Gate[uint32] // by user
}

// OpenDesk opens the desk of the card at an interface, in the network namespace of the calling thread.
// The error wraps EADDRINUSE if there is one.
func OpenDesk(at iface.Interface, anyUser bool) (d *Desk, err error) {
	d = &Desk{anyUser: anyUser, programs: admission.New(admission.Limits{Conns: mostOfUser, AllConns: mostPrograms}, 0, uint32(os.Geteuid()))}
	if d.listener, err = runsocket.Listen("unix", control(at)); err != nil {
		return nil, err
	}
	return d, nil
}

// Programs returns how many programs are connected.
func (d *Desk) Programs() int {
	_, all := d.programs.Conns(0)
	return all
}

// Close ends the welcome of programs. Those that are connected stay.
func (d *Desk) Close() { passfd.CloseListener(d.listener) }

// Serve welcomes programs until Close, and has attend hold the connection of each until it ends. When
// ctx is done the connections end. It returns when they all have.
func (d *Desk) Serve(ctx context.Context, w Welcome, attend func(conn *net.UnixConn, uid uint32)) {
	var held sync.WaitGroup
	defer held.Wait()
	for {
		conn, err := d.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, say: the program gives up, others may be served later
			select {
			case <-ctx.Done():
			case <-time.After(acceptPause):
			}
			continue
		}
		held.Go(func() { d.hold(ctx, conn, w, attend) })
	}
}

const acceptPause = 100 * time.Millisecond

// hold serves a program as long as its connection lasts. A program that is refused takes no seat.
func (d *Desk) hold(ctx context.Context, conn *net.UnixConn, w Welcome, attend func(conn *net.UnixConn, uid uint32)) {
	var uid uint32
	if uid, w.Refused = stranger(conn, d.anyUser); w.Refused == "" && !d.programs.Enter(uid) {
		w.Refused, w.Full = fmt.Sprintf("%d programs are the most, and %d of one user", mostPrograms, mostOfUser), true
	}
	conn.SetWriteDeadline(time.Now().Add(controlPatience))
	err := json.NewEncoder(conn).Encode(w)
	if w.Refused != "" {
		passfd.Refuse(conn)
		return
	}
	conn.SetWriteDeadline(time.Time{})
	stop := context.AfterFunc(ctx, func() { passfd.HangUp(conn) })
	if err == nil {
		attend(conn, uid)
	}
	stop()
	passfd.CloseConn(uid, conn, func() { d.programs.Leave(uid) })
}
