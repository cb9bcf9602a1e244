package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/doctor"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/vipl"
)

// infoReport is what bobnet info --json prints.
type infoReport struct {
	Build      build           `json:"build"`
	Kernel     string          `json:"kernel"`
	Cores      int             `json:"cores"`
	UsedCores  int             `json:"used_cores"` // by Go
	EtherType  string          `json:"ethertype"`
	RawSockets string          `json:"raw_sockets"` // allowed, or why not
	Labs       string          `json:"labs"`        // allowed, or why not
	Memlock    string          `json:"locked_memory"`
	Faults     string          `json:"faults"`
	Job        infoJob         `json:"job"`
	Interfaces []infoInterface `json:"interfaces"`
	Why        string          `json:"why"`           // that interface is used, or none
	NIC        *infoNIC        `json:"nic,omitempty"` // that was opened
	Error      string          `json:"error,omitempty"`
}

// infoJob is the place in a job that the environment gives a program.
type infoJob struct {
	Rank   int    `json:"rank"`
	Size   int    `json:"size"` // 0: the launcher's port will tell
	Name   string `json:"name,omitempty"`
	Source string `json:"source,omitempty"` // "" for a program that is alone
	Why    string `json:"why,omitempty"`
	Error  string `json:"error,omitempty"`
}

// infoInterface is an Ethernet interface.
type infoInterface struct {
	Name   string      `json:"name"`
	State  iface.State `json:"state"`
	MAC    string      `json:"mac"`
	MTU    int         `json:"mtu"`
	Bridge string      `json:"bridge,omitempty"`
	Used   bool        `json:"used"`
}

// infoNIC is a NIC as it was opened.
type infoNIC struct {
	Address   string `json:"address"`
	Driver    string `json:"driver"`
	FirstPort uint16 `json:"first_port"`
	LastPort  uint16 `json:"last_port"`
	MTU       int    `json:"mtu"`
	Slots     int    `json:"receive_slots"`
}

// infoJSON prints what bobnet info shows as one JSON object.
func infoJSON(ctx context.Context, w io.Writer, given *vipl.Config) error {
	r := infoReport{Build: thisBuild(), Kernel: kernel(), Cores: runtime.NumCPU(), UsedCores: runtime.GOMAXPROCS(0),
		EtherType: fmt.Sprintf("0x%04X", uint16(ethertype.Default)), RawSockets: rawSockets(), Labs: labs(), Memlock: memlock(),
		Faults: faults(), Interfaces: []infoInterface{}}
	place, err := job.FindPlace()
	r.Job = infoJob{Rank: place.Rank, Size: place.Size, Name: place.Job, Source: place.Source, Why: place.Why}
	if err != nil {
		r.Job.Error = err.Error()
	}
	cfg, err := given.FromEnvironment()
	if err != nil {
		return err
	}
	chosen, why, choiceErr := doctor.Choose(&cfg)
	list, err := iface.List()
	if err != nil {
		return err
	}
	for _, i := range list {
		r.Interfaces = append(r.Interfaces, infoInterface{i.Name, i.State, i.MAC.String(), i.MTU, i.Bridge, choiceErr == nil && i.Index == chosen.Index})
	}
	if r.Why = why; choiceErr != nil {
		r.Error = choiceErr.Error()
	} else if r.NIC, err = openedNIC(ctx, cfg); err != nil {
		r.Error = err.Error()
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return err
	}
	if cfg.Interface != "" { // one that was named and cannot be chosen is a failure, as in text
		return choiceErr
	}
	return nil
}

// openedNIC opens a NIC, closes it and returns what it was.
func openedNIC(ctx context.Context, cfg vipl.Config) (*infoNIC, error) {
	cfg.NoService = true
	nic, err := vipl.Open(ctx, &cfg)
	if err != nil {
		return nil, err
	}
	defer nic.Close()
	info := seam.Link(nic).Info()
	return &infoNIC{nic.Addr().String(), info.Driver, info.Ports.Lo, info.Ports.Hi, info.MTU, info.Slots}, nil
}
