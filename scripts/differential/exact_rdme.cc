// The reaction-diffusion master equation of a lattice, event by event: no time step, no slots.
//
// Written from the master equation, and sharing no text with the kernels. A particle hops to a
// neighbouring site at rate D / h^2, and reacts alone at rate k; a pair within a site reacts at the
// constant of the site. Candidates for hops and for reactions of one particle come at the largest
// rate of the particle's species, and are refused with what the true rate lacks: this leaves the
// process exact (Lewis & Shedler, Naval Res. Logist. Q. 26, 403 (1979)), and needs no list of sites.
// Pairs are chosen by Gillespie's direct method, over a tree of sums of the sites' propensities.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace {

constexpr int WIDTH = 8;  // of the tree

struct Model {
    std::int64_t nz, ny, nx;
    std::int32_t n_types, n_species, n_reactions;
    const std::uint8_t *types;       // [site]
    const std::uint8_t *periodic;    // [z, y, x]
    const double *hops;              // [from type, to type, species]: 1/s to one side
    const std::int32_t *reactants;   // [reaction, 2]: -1 where there are fewer
    const std::int32_t *made_start;  // [reaction + 1]
    const std::int32_t *made;        // species of products
    const double *rates;             // [reaction, type]: stochastic constants of a site, 1/s
};

// Sums of sums, so that a site is found from a number below the sum of all.
class SumTree {
  public:
    explicit SumTree(std::int64_t leaves) {
        for (std::int64_t n = leaves; levels_.empty() || n > 1;) {
            n = (n + WIDTH - 1) / WIDTH;
            levels_.emplace_back(n * WIDTH, 0.0);
        }
    }

    double total() const { return sum(levels_.back(), 0); }
    double at(std::int64_t leaf) const { return levels_[0][leaf]; }

    void set(std::int64_t leaf, double value) {
        levels_[0][leaf] = value;
        for (std::size_t k = 1; k < levels_.size(); ++k) {
            leaf /= WIDTH;
            levels_[k][leaf] = sum(levels_[k - 1], leaf);
        }
    }

    // The leaf that holds `x`, which becomes what is left of it there.
    std::int64_t find(double &x) const {
        std::int64_t leaf = 0;
        for (std::size_t k = levels_.size(); k-- > 0;) {
            leaf *= WIDTH;
            std::int64_t last = -1;
            for (int i = 0; i < WIDTH; ++i) {
                const double here = levels_[k][leaf + i];
                if (here <= 0) continue;
                last = leaf + i;
                if (x < here) break;
                x -= here;  // rounding may leave some beyond the last one, which then is chosen
            }
            leaf = last;
        }
        return leaf;
    }

  private:
    static double sum(const std::vector<double> &level, std::int64_t group) {
        double sum = 0;
        for (int i = 0; i < WIDTH; ++i) sum += level[group * WIDTH + i];
        return sum;
    }

    std::vector<std::vector<double>> levels_;
};

class Simulation {
  public:
    Simulation(const Model &model, std::uint64_t seed)
        : m_(model),
          sites_(model.nz * model.ny * model.nx),
          random_(seed),
          where_(model.n_species),
          counts_(sites_ * model.n_species, 0),
          pairs_(sites_) {
        split_reactions();
        find_largest();
        for (std::int64_t s = 0; s < sites_; ++s) edges_.push_back(edges_of(s));
    }

    void place(std::int32_t species, std::int64_t site) {
        where_[species].push_back(site);
        ++counts_[site * m_.n_species + species];
        update(site, species);
    }

    // Samples ``[time, species, plane]``; `fired` ``[reaction]`` adds up. Returns events.
    std::int64_t run(const double *times, std::int64_t n_times, std::int64_t *samples,
                     std::int64_t *fired) {
        double now = 0;
        std::int64_t events = 0;
        count_alone();
        for (std::int64_t k = 0; k < n_times;) {
            const double total = alone_ + pairs_.total();
            const double next = total > 0 ? now - std::log1p(-uniform()) / total : INFINITY;
            for (; k < n_times && times[k] < next; ++k) sample(samples, k);
            if (k == n_times) break;
            now = next;
            ++events;
            double x = uniform() * total;
            if (x < alone_)
                one_particle(x, fired);
            else
                a_pair(fired);
        }
        return events;
    }

  private:
    // Uniform on [0, 1).
    double uniform() { return (double)(random_() >> 11) * 0x1p-53; }

    std::int64_t below(std::int64_t n) { return (std::int64_t)(uniform() * (double)n); }

    void split_reactions() {
        first_.resize(m_.n_species);
        pairs_of_.resize(m_.n_species);
        for (std::int32_t r = 0; r < m_.n_reactions; ++r) {
            const std::int32_t a = m_.reactants[2 * r], b = m_.reactants[2 * r + 1];
            if (a < 0) {
                zeroth_.push_back(r);
            } else if (b < 0) {
                first_[a].push_back(r);
            } else {
                second_.push_back(r);
                pairs_of_[a].push_back(r);
                if (b != a) pairs_of_[b].push_back(r);
            }
        }
    }

    // Largest rates of a hop to a side and of all reactions of one particle, over site types.
    void find_largest() {
        largest_hop_.assign(m_.n_species, 0);
        largest_first_.assign(m_.n_species, 0);
        for (std::int32_t s = 0; s < m_.n_species; ++s)
            for (std::int32_t t = 0; t < m_.n_types; ++t) {
                for (std::int32_t to = 0; to < m_.n_types; ++to)
                    largest_hop_[s] = std::fmax(largest_hop_[s], hop(t, to, s));
                double sum = 0;
                for (const std::int32_t r : first_[s]) sum += m_.rates[r * m_.n_types + t];
                largest_first_[s] = std::fmax(largest_first_[s], sum);
            }
        largest_zeroth_ = 0;
        for (std::int32_t t = 0; t < m_.n_types; ++t) {
            double sum = 0;
            for (const std::int32_t r : zeroth_) sum += m_.rates[r * m_.n_types + t];
            largest_zeroth_ = std::fmax(largest_zeroth_, sum);
        }
    }

    void count_alone() {
        alone_ = largest_zeroth_ * (double)sites_;
        for (std::int32_t s = 0; s < m_.n_species; ++s)
            alone_ += (double)where_[s].size() * (6 * largest_hop_[s] + largest_first_[s]);
    }

    double hop(int from, int to, int species) const {
        return m_.hops[(from * m_.n_types + to) * m_.n_species + species];
    }

    // A bit for each side (-z, +z, -y, +y, -x, +x) that is a face of the lattice.
    std::uint8_t edges_of(std::int64_t site) const {
        const std::int64_t x = site % m_.nx, y = site / m_.nx % m_.ny, z = site / (m_.nx * m_.ny);
        return (std::uint8_t)((z == 0) | (z == m_.nz - 1) << 1 | (y == 0) << 2 |
                              (y == m_.ny - 1) << 3 | (x == 0) << 4 | (x == m_.nx - 1) << 5);
    }

    // The neighbour at a side, -1 behind a face that is not periodic.
    std::int64_t neighbour(std::int64_t site, int side) const {
        const std::int64_t strides[] = {m_.nx * m_.ny, m_.nx, 1}, sizes[] = {m_.nz, m_.ny, m_.nx};
        const int axis = side / 2;
        const std::int64_t stride = strides[axis];
        if (edges_[site] >> side & 1) {
            if (!m_.periodic[axis]) return -1;
            return side % 2 ? site - (sizes[axis] - 1) * stride : site + (sizes[axis] - 1) * stride;
        }
        return side % 2 ? site + stride : site - stride;
    }

    double propensity(std::int64_t site, std::int32_t r) const {
        const std::int32_t *n = &counts_[site * m_.n_species];
        const std::int32_t a = m_.reactants[2 * r], b = m_.reactants[2 * r + 1];
        const double ways = a == b ? 0.5 * n[a] * (n[a] - 1) : (double)n[a] * n[b];
        return m_.rates[r * m_.n_types + m_.types[site]] * ways;
    }

    // Brings a site's pairs up to date where a species has changed.
    void update(std::int64_t site, std::int32_t species) {
        if (pairs_of_[species].empty()) return;
        double sum = 0;
        for (const std::int32_t r : second_) sum += propensity(site, r);
        if (sum != pairs_.at(site)) pairs_.set(site, sum);
    }

    void remove(std::int32_t species, std::int64_t site) {
        std::vector<std::int64_t> &places = where_[species];
        std::size_t i = 0;
        while (places[i] != site) ++i;
        places[i] = places.back();
        places.pop_back();
        --counts_[site * m_.n_species + species];
        update(site, species);
    }

    void fire(std::int32_t r, std::int64_t site, std::int64_t *fired) {
        for (int i = 0; i < 2; ++i)
            if (m_.reactants[2 * r + i] >= 0) remove(m_.reactants[2 * r + i], site);
        for (std::int32_t k = m_.made_start[r]; k < m_.made_start[r + 1]; ++k)
            place(m_.made[k], site);
        ++fired[r];
        count_alone();
    }

    // What candidate of one particle, or of none, `x` out of `alone_` stands for.
    void one_particle(double x, std::int64_t *fired) {
        for (std::int32_t s = 0; s < m_.n_species; ++s) {
            const double n = (double)where_[s].size(), hops = n * 6 * largest_hop_[s];
            if (x < hops) return try_hop(s);
            x -= hops;
            if (x < n * largest_first_[s])
                return try_reactions(first_[s], largest_first_[s],
                                     where_[s][below((std::int64_t)n)], fired);
            x -= n * largest_first_[s];
        }
        if (!zeroth_.empty()) try_reactions(zeroth_, largest_zeroth_, below(sites_), fired);
    }

    void try_hop(std::int32_t species) {
        std::vector<std::int64_t> &places = where_[species];
        const std::int64_t choice = below(6 * (std::int64_t)places.size());
        std::int64_t &place = places[choice / 6];
        const std::int64_t from = place, to = neighbour(from, (int)(choice % 6));
        if (to < 0) return;
        const double rate = hop(m_.types[from], m_.types[to], species);
        if (rate < largest_hop_[species] && uniform() * largest_hop_[species] >= rate) return;
        place = to;
        --counts_[from * m_.n_species + species];
        ++counts_[to * m_.n_species + species];
        update(from, species);
        update(to, species);
    }

    void try_reactions(const std::vector<std::int32_t> &reactions, double largest,
                       std::int64_t site, std::int64_t *fired) {
        double x = uniform() * largest;
        for (const std::int32_t r : reactions) {
            const double rate = m_.rates[r * m_.n_types + m_.types[site]];
            if (x < rate) return fire(r, site, fired);
            x -= rate;
        }
    }

    void a_pair(std::int64_t *fired) {
        double x = uniform() * pairs_.total();
        const std::int64_t site = pairs_.find(x);
        std::int32_t last = -1;
        for (const std::int32_t r : second_) {
            const double rate = propensity(site, r);
            if (rate <= 0) continue;
            last = r;
            if (x < rate) break;
            x -= rate;
        }
        fire(last, site, fired);
    }

    void sample(std::int64_t *samples, std::int64_t k) const {
        const std::int64_t plane = m_.ny * m_.nx;
        for (std::int32_t s = 0; s < m_.n_species; ++s)
            for (const std::int64_t site : where_[s])
                ++samples[(k * m_.n_species + s) * m_.nz + site / plane];
    }

    const Model m_;
    const std::int64_t sites_;
    std::mt19937_64 random_;
    std::vector<std::vector<std::int64_t>> where_;  // sites of a species' particles
    std::vector<std::int32_t> counts_;              // [site, species]
    SumTree pairs_;
    std::vector<std::uint8_t> edges_;
    std::vector<std::vector<std::int32_t>> first_, pairs_of_;  // reactions of a species
    std::vector<std::int32_t> zeroth_, second_;
    std::vector<double> largest_hop_, largest_first_;
    double largest_zeroth_ = 0, alone_ = 0;  // alone_: candidates but pairs, 1/s
};

}  // namespace

// Runs from particles `species` at `sites`; returns events, refused candidates included.
extern "C" std::int64_t exact_rdme(const Model *model, std::uint64_t seed, std::int64_t n,
                                   const std::int32_t *species, const std::int64_t *sites,
                                   std::int64_t n_times, const double *times, std::int64_t *samples,
                                   std::int64_t *fired) {
    Simulation simulation(*model, seed);
    for (std::int64_t i = 0; i < n; ++i) simulation.place(species[i], sites[i]);
    return simulation.run(times, n_times, samples, fired);
}
