// Package mesh connects the ranks of a program by virtual interfaces. Each pair of ranks gets as
// many VIs as the layer of Split-C requires, each of its own kind.
//
// A rank listens at a port that it advertises under a name with the run's nonce. Of two ranks the
// lower one requests a connection of each kind from the other. A request carries the nonce, both
// ranks and the kind. A rank rejects and counts requests of ranks outside the run, from a station
// other than the named rank's, and of ranks that already have the connection.
package mesh

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/refusal"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/vipl"
)

// Config configures the connections.
type Config struct {
	layer.Config
	Name  string // of the layer
	Kinds int    // VIs between two ranks
	// Make creates the VI of a kind for a rank, with its receives posted. The layer owns the VI,
	// even if Connect fails.
	Make func(rank, kind int) (*vipl.VI, error)
}

// requestSize is the length of the data of a request: nonce, both ranks, kind.
const requestSize = 8 + 4 + 4 + 4

// pause is the longest time between two checks of the pending attempts.
const pause = time.Millisecond

// mesh is the state of Connect.
type mesh struct {
	Config
	listener *vipl.Listener
	vis      [][]*vipl.VI // by rank and kind; nil until created
	pending  []*vipl.VI   // attempts in progress
	wanted   int          // requests of lower ranks that have not arrived
	strays   uint64
}

// Connect connects this rank with every other one. When all are connected, it returns the VIs by
// rank and kind, nil for this rank, and the number of rejected requests. Its error names the rank
// that is missing.
func Connect(ctx context.Context, cfg Config) (vis [][]*vipl.VI, strays uint64, err error) {
	m := &mesh{Config: cfg, vis: make([][]*vipl.VI, cfg.Procs), wanted: cfg.Rank * cfg.Kinds}
	for rank := range m.vis {
		if rank != cfg.Rank {
			m.vis[rank] = make([]*vipl.VI, cfg.Kinds)
		}
	}
	if m.listener, err = cfg.NIC.Listen(0); err != nil {
		return nil, 0, err
	}
	defer m.listener.Close()
	if err := cfg.NIC.Advertise(m.name(cfg.Rank), m.listener.Addr()); err != nil {
		return nil, 0, err
	}
	defer cfg.NIC.Withdraw(m.name(cfg.Rank))
	cfg.Watch.Begin()
	if err := m.ask(ctx); err != nil {
		return nil, m.strays, err
	}
	for m.wanted > 0 || len(m.pending) > 0 {
		if err := m.step(ctx); err != nil {
			return nil, m.strays, err
		}
	}
	return m.vis, m.strays, nil
}

// name returns the name under which a rank's listener is found.
func (m *mesh) name(rank int) string {
	return fmt.Sprintf("splitc/%s/%016x/%d/%d", m.Name, m.Member.Identity().Nonce, m.Generation, rank)
}

// ask sends the requests to all higher ranks.
func (m *mesh) ask(ctx context.Context) error {
	for rank := m.Rank + 1; rank < m.Procs; rank++ {
		at, err := m.find(ctx, rank)
		if err != nil {
			return err
		}
		for kind := range m.Kinds {
			vi, err := m.createVI(rank, kind)
			if err != nil {
				return err
			}
			if err := vi.ConnectStart(at, m.request(rank, kind)); err != nil {
				return fmt.Errorf("rank %d: %w", rank, err)
			}
			m.pending = append(m.pending, vi)
		}
	}
	return nil
}

// find looks up a rank's listener, and serves requests meanwhile.
func (m *mesh) find(ctx context.Context, rank int) (at ethertype.Addr, err error) {
	for {
		if at, err = m.NIC.LookupAt(m.Watch.Slice(), m.Member.Addr(rank), m.name(rank)); err == nil {
			return at, nil
		}
		if late := m.Watch.Check(ctx); late != nil {
			return at, fmt.Errorf("rank %d does not listen: %w (%w)", rank, err, late)
		}
		if err := m.serve(); err != nil {
			return at, err
		}
	}
}

// createVI makes a VI.
func (m *mesh) createVI(rank, kind int) (*vipl.VI, error) {
	vi, err := m.Make(rank, kind)
	if err != nil {
		return nil, err
	}
	m.vis[rank][kind] = vi
	return vi, nil
}

// step processes requests and the progress of attempts, and waits for a while.
func (m *mesh) step(ctx context.Context) error {
	if err := m.serve(); err != nil {
		return err
	}
	left := m.pending[:0]
	for _, vi := range m.pending {
		switch err := vi.ConnectDone(); {
		case err == vipl.ErrNotDone:
			left = append(left, vi)
		case err != nil:
			return fmt.Errorf("rank %d: %w", m.rankOf(vi), refusal.Classed(err))
		}
	}
	if m.pending = left; m.wanted == 0 && len(left) == 0 {
		return nil
	}
	if err := m.Watch.Check(ctx); err != nil {
		return fmt.Errorf("%d requests of lower ranks and %d answers of higher ranks are missing: %w", m.wanted, len(m.pending), err)
	}
	timed, cancel := m.NIC.WithTimeout(m.Watch.Slice(), pause)
	defer cancel()
	r, err := m.listener.Wait(timed)
	switch {
	case err == nil:
		return m.acceptRequest(r)
	case errors.Is(err, vipl.ErrTimeout):
		return nil
	}
	return err
}

// rankOf returns the rank of a VI.
func (m *mesh) rankOf(vi *vipl.VI) int {
	for rank, vis := range m.vis {
		for _, v := range vis {
			if v == vi {
				return rank
			}
		}
	}
	return m.Rank
}

// serve processes all requests that have arrived.
func (m *mesh) serve() error {
	for {
		r, err := m.listener.Poll()
		if err == vipl.ErrNotDone {
			return nil
		}
		if err == nil {
			err = m.acceptRequest(r)
		}
		if err != nil {
			return err
		}
	}
}

// request returns the data of a request to a rank.
func (m *mesh) request(rank, kind int) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, requestSize), m.Member.Identity().Nonce)
	for _, v := range [3]int{m.Rank, rank, kind} {
		b = binary.BigEndian.AppendUint32(b, uint32(v))
	}
	return b
}

// acceptRequest accepts a request if it is expected.
func (m *mesh) acceptRequest(r *vipl.Request) error {
	b := r.Data()
	if len(b) != requestSize || binary.BigEndian.Uint64(b) != m.Member.Identity().Nonce {
		m.strays++
		_ = r.Reject("this is a rank of a Split-C program, and the requester is not in its run")
		return nil
	}
	from, to, kind := binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:]), binary.BigEndian.Uint32(b[16:])
	if int64(from) >= int64(m.Rank) || int(to) != m.Rank || int64(kind) >= int64(m.Kinds) || m.vis[from][kind] != nil {
		m.strays++
		_ = r.Reject(fmt.Sprintf("rank %d expects no connection %d from rank %d", m.Rank, kind, from))
		return nil
	}
	if r.Remote().MAC != m.Member.Addr(int(from)).MAC {
		m.strays++
		_ = r.Reject(fmt.Sprintf("this is not the station of rank %d", from))
		return nil
	}
	vi, err := m.createVI(int(from), int(kind))
	if err != nil {
		refusal.Because(r, err)
		return err
	}
	if err := r.AcceptStart(vi); err != nil {
		return fmt.Errorf("rank %d: %w", from, err)
	}
	m.wanted--
	m.pending = append(m.pending, vi)
	return nil
}
