package job

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/pmi"
)

// A launcher with PMI-1 has a key-value space, through which the ranks publish their addresses and
// the nonce of the run, so no rank needs broadcast discovery. The process has one connection with
// its launcher, which its first job uses. When that job ends in order, the conversation ends too,
// because launchers require this before a process exits. A Member reads only the entries of its
// neighbours in the tree (tree.go). Programs on that job's Member ask each rank's NIC, whose
// address the job knows (vipl.NIC.LookupAt). Any later job of the process uses broadcast discovery.

// space is the key-value space of a launcher.
type space interface {
	// Put publishes a value; it is visible after the next Barrier.
	Put(ctx context.Context, key, value string) error
	// Barrier returns when all ranks have called it. If ctx ends it, the caller may call it again
	// for the same barrier.
	Barrier(ctx context.Context) error
	// Get returns a value.
	Get(ctx context.Context, key string) (string, error)
}

// launcher is the process's connection with its launcher.
type launcher struct {
	client *pmi.Client
	err    error  // why there is no connection
	name   string // name of the job that it has started
	used   bool   // a job of that name has started
	ended  bool   // that job has ended in order
}

// launchers holds the process's connection, keyed by its description in the environment.
var launchers struct {
	sync.Mutex
	by map[[2]string]*launcher
}

// ask completes c from p, and from the launcher if it supports PMI-1.
func (c *Config) ask(p Place) error {
	c.Rank, c.Size = p.Rank, p.Size
	if p.Source != sourcePMI && !(p.Source == sourceBobnet && p.sameJob()) {
		c.Job = cmp.Or(c.Job, p.Job)
		return nil
	}
	l := connect(cmp.Or(c.Timeout, DefaultTimeout))
	if l.err != nil {
		return l.err
	}
	launchers.Lock()
	defer launchers.Unlock()
	c.Rank, c.Size = l.client.Rank(), l.client.Size()
	c.Job = cmp.Or(c.Job, nameOf(l.client.Space()))
	l.name = c.Job
	if c.Size == 1 { // there are no other ranks to find
		l.finalize()
	}
	return nil
}

// sameJob reports whether the launcher in PMI_FD has started this job. The alternative is that a
// rank of its job has started this one, which inherits the variable.
func (p *Place) sameJob() bool {
	return os.Getenv(pmi.EnvFD) != "" && p.Job != "" && os.Getenv(pmi.EnvJob) == p.Job &&
		os.Getenv(pmi.EnvRank) == strconv.Itoa(p.Rank) && os.Getenv(pmi.EnvSize) == strconv.Itoa(p.Size)
}

// connect returns the process's connection with its launcher, which it creates at most once.
func connect(timeout time.Duration) *launcher {
	launchers.Lock()
	defer launchers.Unlock()
	key := [2]string{os.Getenv(pmi.EnvFD), os.Getenv(pmi.EnvPort) + " " + os.Getenv(pmi.EnvID)}
	if l := launchers.by[key]; l != nil {
		return l
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	l := &launcher{}
	l.client, l.err = pmi.Open(ctx, os.Getenv)
	if launchers.by == nil {
		launchers.by = map[[2]string]*launcher{}
	}
	launchers.by[key] = l
	return l
}

// spaceOf is launched, except in tests with their own space.
var spaceOf = launched

// launched returns the connection and the key-value space for the job of id. It returns nil if the
// launcher has not started that job, or if an earlier job has used the connection.
func launched(id *Identity) (*launcher, space) {
	launchers.Lock()
	defer launchers.Unlock()
	for _, l := range launchers.by {
		if l.err == nil && !l.used && l.name == id.Job && l.client.Rank() == id.Rank && l.client.Size() == id.Size {
			l.used = true
			return l, l.client
		}
	}
	return nil, nil
}

// endFor limits how long a rank tries to tell its launcher that it ends.
const endFor = 5 * time.Second

// Done implements joining.Job.
func (j *membership) Done() {
	if j.member != nil {
		j.member.t.job.Done()
		return
	}
	if j.launcher == nil {
		return
	}
	launchers.Lock()
	defer launchers.Unlock()
	j.launcher.finalize()
}

// finalize ends the conversation. It ignores errors: the process exits with its own code.
func (l *launcher) finalize() {
	if l.ended {
		return
	}
	l.used, l.ended = true, true
	ctx, cancel := context.WithTimeout(context.Background(), endFor)
	defer cancel()
	l.client.Finalize(ctx)
}

// Abort implements joining.Job.
func (j *membership) Abort(code int) {
	l := j.launcher
	if j.member != nil {
		l = j.member.t.job.launcher
	}
	launchers.Lock()
	defer launchers.Unlock()
	if l != nil && !l.ended {
		l.client.Abort(code)
	}
}

// The version of the published values, which is their first part.
const spaceVersion = "2"

// keyOf returns the key of a rank's entry.
func keyOf(rank int) string { return "bobnet-" + strconv.Itoa(rank) }

// entry is what a rank publishes: its listener's address, its program's parameters for a hello, and
// for rank 0 the nonce.
type entry struct {
	addr   ethertype.Addr
	params [2]uint32
	nonce  uint64
}

// String returns the entry in its published form: at most 64 letters, digits and dashes.
func (e *entry) String() string {
	return fmt.Sprintf("%s-%s%04x-%08x%08x-%016x", spaceVersion, hex.EncodeToString(e.addr.MAC[:]), e.addr.Port, e.params[0], e.params[1], e.nonce)
}

// errValue is wrapped by errors about invalid entries.
var errValue = errors.New("its entry in the launcher's key-value space is invalid (build all ranks from the same source)")

// parseEntry decodes the result of String.
func parseEntry(text string) (e entry, err error) {
	var number [4]uint64
	words := strings.Split(text, "-")
	ok := len(words) == 4 && words[0] == spaceVersion
	for i := 1; i < 4 && ok; i++ {
		number[i], err = strconv.ParseUint(words[i], 16, 64)
		ok = err == nil && len(words[i]) == 16
	}
	if !ok {
		return entry{}, fmt.Errorf("%w (%q)", errValue, text)
	}
	var place [8]byte
	binary.BigEndian.PutUint64(place[:], number[1])
	copy(e.addr.MAC[:], place[:])
	e.addr.Port = binary.BigEndian.Uint16(place[6:])
	e.params, e.nonce = [2]uint32{uint32(number[2] >> 32), uint32(number[2])}, number[3]
	return e, nil
}

// publish publishes this rank's entry, and returns when all ranks have done so. If that takes long,
// it logs which ranks it waits for.
func (m *meeting) publish() error {
	mine := entry{addr: m.listener.Addr(), params: m.links.Params(), nonce: m.Nonce}
	if err := m.space.Put(m.ctx, keyOf(m.Rank), mine.String()); err != nil {
		return m.errorf("%w: %w", ErrInit, err)
	}
	m.waits.at(waitBarrier, 0, ethertype.Addr{})
	patient, cancel := m.nic.WithTimeout(m.ctx, sayAfter)
	defer cancel()
	err := m.space.Barrier(patient)
	if err != nil && patient.Err() != nil && m.ctx.Err() == nil {
		m.sayAwaited()
		err = m.space.Barrier(m.ctx)
	}
	if err != nil {
		return m.errorf("%w: not all ranks reached the launcher's barrier: %w", ErrInit, err)
	}
	first, err := m.read(0)
	if err == nil && m.Rank == 0 && first.addr != mine.addr { // the space has kept the entry of another process
		return &DuplicateError{Job: m.Identity.Job, Rank: 0, First: first.addr, Second: mine.addr}
	}
	m.Nonce, m.told = first.nonce, err == nil
	return err
}

// read returns a rank's entry.
func (m *meeting) read(rank int) (e entry, err error) {
	text, err := m.space.Get(m.ctx, keyOf(rank))
	if err == nil {
		e, err = parseEntry(text)
	}
	if err != nil {
		err = m.errorf("%w: rank %d: %w", ErrInit, rank, err)
	}
	return e, err
}
