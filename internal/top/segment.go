package top

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// listenFor is the time that stations have to answer.
const listenFor = 250 * time.Millisecond

// Segment finds stations by broadcast. The zero value has no NIC and finds none.
type Segment struct {
	nic  *vipl.NIC
	note string // why there is no NIC
}

// OpenSegment opens a NIC for broadcasts. It cannot fail, because metrics need no NIC: Take notes the
// reason in each sample.
func OpenSegment(ctx context.Context, cfg vipl.Config) *Segment {
	nic, err := vipl.Open(ctx, &cfg)
	if err != nil {
		return &Segment{note: fmt.Sprintf("no broadcast on the segment: %v", err)}
	}
	return &Segment{nic: nic}
}

// Open reports whether there is a NIC.
func (s *Segment) Open() bool { return s.nic != nil }

// Take adds the stations that answer to a sample. If the NIC cannot broadcast, Take returns the
// error and adds it to the notes of the sample.
func (s *Segment) Take(ctx context.Context, to *Sample) error {
	if s.note != "" {
		to.Notes = append(to.Notes, s.note)
	}
	if s.nic == nil {
		return nil
	}
	ctx, cancel := s.nic.WithTimeout(ctx, listenFor)
	defer cancel()
	found, err := s.nic.Discover(ctx)
	to.Found(found)
	if err == nil || errors.Is(err, vipl.ErrTimeout) && !errors.Is(err, transport.ErrLinkDown) {
		return nil
	}
	err = fmt.Errorf("broadcast on the segment: %w", err)
	to.Notes = append(to.Notes, err.Error())
	return err
}

// Close closes the NIC.
func (s *Segment) Close() {
	if s.nic != nil {
		s.nic.Close()
	}
}
