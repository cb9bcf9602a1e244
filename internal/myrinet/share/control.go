package share

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/link/shm"
	"github.com/bobnet-go/bobnet/internal/passfd"
	"github.com/bobnet-go/bobnet/internal/runsocket"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/mdlayher/ethernet"
)

// ErrNoCard means that no process serves a card at an interface.
var ErrNoCard = errors.New("share: no process serves a card there")

// ErrFull means that a card serves the maximum number of programs.
var ErrFull = errors.New("share: too many programs use the card")

// The control programs that a card may run.
const (
	Plain = "plain"
	AMII  = "am2"
	VMMC  = "vmmc"
)

// Outdated returns why a program cannot use a card whose process has another version, or "".
func Outdated(control string, card, program int) string {
	if card == program {
		return ""
	}
	older, newer := "this program", "the card"
	if card < program {
		older, newer = "the card (bobnet card)", "this program"
	}
	return fmt.Sprintf("it serves programs of %s by version %d of their protocol, and this program has version %d: restart %s with the version of Bobnet that %s has",
		control, card, program, older, newer)
}

// Welcome is the message that the card's process sends to a connecting program, as a line of JSON.
// The messages that follow depend on the control program. The end of the connection means that the
// process has ended.
type Welcome struct {
	Program   string
	Version   int    `json:",omitempty"` // of the protocol that follows
	Refused   string `json:",omitempty"` // why the program is not served
	Full      bool   `json:",omitempty"` // refused because of the maximum number of programs
	Directory string `json:",omitempty"` // of the port blocks' sockets if the card creates them; otherwise programs create them
	MTU       int    `json:",omitempty"`
	EtherType uint16 `json:",omitempty"`
}

const (
	controlPatience = 10 * time.Second // timeout of the welcome, which a running process sends at once
	mostPrograms    = 63               // the number of port blocks
	mostOfUser      = 16               // programs of one user, except root and the card's user
	cardPort        = 1                // port of the card's process in the shared memory
	ring            = 4 << 20          // bytes of frames between card and program, in each direction
)

// control returns the name of the socket of the card at an interface, for package runsocket.
func control(at iface.Interface) string { return "card/" + strconv.Itoa(at.Index) }

// openMemory claims ports among the processes that share memory with the card at an interface.
func openMemory(at iface.Interface, typ ethernet.EtherType, ports transport.PortRange, anyUser bool, directory string, sockets ...int) (*shm.Link, error) {
	return shm.Open(&shm.Config{Directory: directory, Sockets: sockets, Address: at.MAC, Segment: "card/" + strconv.Itoa(at.Index), EtherType: typ, Ports: ports, Ring: ring, AnyUser: anyUser})
}

// Dial connects to the process that serves the card at an interface. program is the required
// control program. The error wraps ErrNoCard if there is no such process, ErrFull if it serves the
// maximum number of programs, and ctx's error if ctx ends first.
// version is the version of the protocol between the program and the card's process, including the
// layout of shared memory.
func Dial(ctx context.Context, at iface.Interface, program string, version int) (conn *net.UnixConn, w Welcome, err error) {
	if conn, w, err = welcome(ctx, at); err != nil {
		return nil, w, err
	}
	switch {
	case w.Full:
		err = fmt.Errorf("%w: the one at interface %s: %s", ErrFull, at.Name, w.Refused)
	case w.Refused != "":
		err = fmt.Errorf("share: the card at interface %s refuses this program: %s", at.Name, w.Refused)
	case w.Program != program:
		err = fmt.Errorf("share: the card at interface %s runs the control program %s, but this program needs %s (stop the card and run: bobnet card --iface %s --program %s)",
			at.Name, w.Program, program, at.Name, program)
	case w.Version != version:
		err = fmt.Errorf("share: the card at interface %s: %s", at.Name, Outdated(program, w.Version, version))
	default:
		return conn, w, nil
	}
	conn.Close()
	return nil, w, err
}

// welcome connects to the process that serves the card at an interface, and reads its welcome.
func welcome(ctx context.Context, at iface.Interface) (conn *net.UnixConn, w Welcome, err error) {
	conn, err = runsocket.Dial("unix", control(at))
	if err != nil {
		return nil, w, fmt.Errorf("%w: interface %s: %w (to start a card, run: bobnet card --iface %s)", ErrNoCard, at.Name, err, at.Name)
	}
	if _, whose := stranger(conn, false); whose != "" { // if root serves no card there, any user can take its name
		conn.Close()
		return nil, w, fmt.Errorf("%w: the process at interface %s is not trusted: %s", ErrNoCard, at.Name, whose)
	}
	stop := context.AfterFunc(ctx, func() { passfd.HangUp(conn) })
	conn.SetReadDeadline(time.Now().Add(controlPatience))
	if err = json.NewDecoder(conn).Decode(&w); err == nil {
		err = conn.SetReadDeadline(time.Time{})
	}
	switch ended := !stop(); {
	case ended:
		err = fmt.Errorf("share: the card at interface %s: %w", at.Name, ctx.Err())
	case err != nil:
		err = fmt.Errorf("%w: the process at interface %s does not answer: %w", ErrNoCard, at.Name, err)
	default:
		return conn, w, nil
	}
	conn.Close()
	return nil, w, err
}

// awaitPause is the interval between the attempts of Await.
const awaitPause = time.Millisecond

// Await waits until a process serves programs at an interface. It returns the errors of Dial, except
// that ErrNoCard means that ctx has ended first.
func Await(ctx context.Context, at iface.Interface) error {
	for {
		conn, _, err := welcome(ctx, at)
		if err == nil {
			return conn.Close()
		}
		if !errors.Is(err, ErrNoCard) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", err, ctx.Err())
		case <-time.After(awaitPause):
		}
	}
}

// stranger returns the user of the process at the other end of a connection. If that process belongs
// neither to root nor to this process's user, and anyUser is not set, refused is the reason why this
// process does not trust it. Otherwise refused is "".
func stranger(conn *net.UnixConn, anyUser bool) (uid uint32, refused string) {
	who, err := passfd.PeerOf(conn)
	switch {
	case err != nil:
		return passfd.Unknown, "its user is unknown"
	case anyUser || who.Uid == 0 || int(who.Uid) == os.Geteuid():
		return who.Uid, ""
	}
	return who.Uid, fmt.Sprintf("it is user %d's, the other side user %d's: run both as one user, or the card as root and with --any-user", who.Uid, os.Geteuid())
}

// envelope writes the header that precedes a frame in a ring.
func envelope(b []byte, mac ethertype.MAC, typ ethernet.EtherType, from, to uint16, size int) {
	h := ethertype.Header{Dst: mac, Src: mac, Type: typ, Kind: ethertype.KindEcho, DstPort: to, SrcPort: from, Size: uint16(size)}
	h.Put(b[:ethertype.HeaderSize])
}
