package top

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The limits of what a source may take.
const (
	askFor     = 5 * time.Second
	maxAnswer  = 64 << 20 // bytes
	maxTargets = 4096     // of one list
)

// Sources are where programs serve their metrics, as metrics.Serve and bobnet lab do.
type Sources struct {
	urls   []source
	client http.Client
}

type source struct {
	url      *url.URL
	optional bool // nobody need serve metrics there
}

// target is what is read at a time.
type target struct {
	url    string
	name   string // of the program, where no label says it
	labels map[string]string
}

// NewSources takes addresses as :PORT, HOST:PORT, or as URLs. Where a URL has no path, the
// source's list of targets is read, /targets, if it has one, and else /metrics.
// At an address of optional nobody need serve metrics.
func NewSources(addresses []string, optional ...string) (*Sources, error) {
	s := &Sources{client: http.Client{Timeout: askFor}}
	for i, a := range append(slices.Clone(addresses), optional...) {
		full := a
		if !strings.Contains(a, "://") {
			full = "http://" + a
		}
		u, err := url.Parse(full)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("%q is no address of metrics: want :PORT, HOST:PORT or a URL such as http://localhost:9464/metrics", a)
		}
		if strings.HasPrefix(u.Host, ":") {
			u.Host = "localhost" + u.Host
		}
		s.urls = append(s.urls, source{u, i >= len(addresses)})
	}
	return s, nil
}

// Close gives back the connections.
func (s *Sources) Close() { s.client.CloseIdleConnections() }

// ErrSilent is wrapped by an error of Take: a source has not answered.
var ErrSilent = errors.New("no answer")

// Take adds what all sources say to a sample, and a note for each that does not answer. The error
// names the sources that do not: those that were asked for, or all of the optional ones.
func (s *Sources) Take(ctx context.Context, to *Sample) error {
	var refused, silent []string
	for _, u := range s.urls {
		targets, err := s.targets(ctx, u.url)
		switch {
		case u.optional && errors.Is(err, unix.ECONNREFUSED):
			refused = append(refused, u.url.Host)
		case err != nil:
			to.Notes = append(to.Notes, fmt.Sprintf("%s: %v", u.url, err))
			silent = append(silent, u.url.Host)
		default:
			if s.read(ctx, targets, to) == 0 && len(targets) > 0 {
				silent = append(silent, u.url.Host)
			}
		}
	}
	if len(refused) == len(s.urls) && len(refused) > 0 {
		to.Notes = append(to.Notes, fmt.Sprintf("nobody serves metrics at %s", strings.Join(refused, " or ")))
		silent = refused
	}
	if len(silent) > 0 {
		return fmt.Errorf("%w from %s", ErrSilent, strings.Join(silent, ", "))
	}
	return nil
}

// read reads all targets at once, and returns how many have answered.
func (s *Sources) read(ctx context.Context, targets []target, to *Sample) (answered int) {
	texts, errs := make([]string, len(targets)), make([]error, len(targets))
	turns := make(chan struct{}, 16)
	var wait sync.WaitGroup
	for i, t := range targets {
		wait.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			var b []byte
			b, _, errs[i] = s.get(ctx, t.url)
			texts[i] = string(b)
		})
	}
	wait.Wait()
	for i, t := range targets {
		if errs[i] == nil {
			errs[i] = to.Read(t.name, t.labels, strings.NewReader(texts[i]))
		}
		if errs[i] != nil {
			to.Notes = append(to.Notes, fmt.Sprintf("%s: %v", t.url, errs[i]))
			continue
		}
		answered++
	}
	return answered
}

// targets returns what is to be read of a source.
func (s *Sources) targets(ctx context.Context, u *url.URL) ([]target, error) {
	if u.Path != "" && u.Path != "/" && u.Path != "/targets" {
		return []target{{url: u.String(), name: u.Host}}, nil
	}
	list, code, err := s.get(ctx, u.JoinPath("/targets").String())
	switch {
	case code == http.StatusNotFound:
		return []target{{url: u.JoinPath("/metrics").String(), name: u.Host}}, nil
	case err != nil:
		return nil, err
	}
	return parseTargets(u.Scheme, list)
}

// parseTargets reads a list for Prometheus's http_sd_configs.
func parseTargets(scheme string, list []byte) (all []target, err error) {
	var groups []struct {
		Targets []string
		Labels  map[string]string
	}
	if err := json.Unmarshal(list, &groups); err != nil {
		return nil, fmt.Errorf("its list of targets is none: %w", err)
	}
	for _, g := range groups {
		path := g.Labels["__metrics_path__"]
		if path == "" {
			path = "/metrics"
		}
		for _, host := range g.Targets {
			if _, _, err := net.SplitHostPort(host); err != nil || len(all) >= maxTargets {
				return nil, fmt.Errorf("its list of targets has %.80q, or more than %d", host, maxTargets)
			}
			all = append(all, target{url: (&url.URL{Scheme: scheme, Host: host, Path: path}).String(), name: host, labels: g.Labels})
		}
	}
	return all, nil
}

// get returns what is served at an address.
func (s *Sources) get(ctx context.Context, address string) (text []byte, code int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4")
	res, err := s.client.Do(req)
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		err = failed.Err // the caller says where
	}
	if err != nil {
		return nil, 0, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, res.StatusCode, fmt.Errorf("it answers %s", res.Status)
	}
	text, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err == nil && len(text) > maxAnswer {
		err = fmt.Errorf("it says more than %d bytes", maxAnswer)
	}
	return text, res.StatusCode, err
}
