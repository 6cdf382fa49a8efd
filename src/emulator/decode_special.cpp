// SPDX-License-Identifier: Apache-2.0
#include "emulator/decode_special.hpp"

#include <algorithm>

namespace kernelforge::emulator::decoding {

namespace {

using S = SpecialRegister;

constexpr std::array specials{
    Special{"%tid.x", S::tid_x},
    Special{"%tid.y", S::tid_y},
    Special{"%tid.z", S::tid_z},
    Special{"%ntid.x", S::ntid_x},
    Special{"%ntid.y", S::ntid_y},
    Special{"%ntid.z", S::ntid_z},
    Special{"%ctaid.x", S::ctaid_x},
    Special{"%ctaid.y", S::ctaid_y},
    Special{"%ctaid.z", S::ctaid_z},
    Special{"%nctaid.x", S::nctaid_x},
    Special{"%nctaid.y", S::nctaid_y},
    Special{"%nctaid.z", S::nctaid_z},
    Special{"%laneid", S::laneid},
    Special{"%warpid", S::warpid},
    Special{"%nwarpid", S::nwarpid},
    Special{"%lanemask_eq", S::lanemask_eq},
    Special{"%lanemask_le", S::lanemask_le},
    Special{"%lanemask_lt", S::lanemask_lt},
    Special{"%lanemask_ge", S::lanemask_ge},
    Special{"%lanemask_gt", S::lanemask_gt},
    Special{"%clusterid.x", S::clusterid_x},
    Special{"%clusterid.y", S::clusterid_y},
    Special{"%clusterid.z", S::clusterid_z},
    Special{"%nclusterid.x", S::nclusterid_x},
    Special{"%nclusterid.y", S::nclusterid_y},
    Special{"%nclusterid.z", S::nclusterid_z},
    Special{"%cluster_ctaid.x", S::cluster_ctaid_x},
    Special{"%cluster_ctaid.y", S::cluster_ctaid_y},
    Special{"%cluster_ctaid.z", S::cluster_ctaid_z},
    Special{"%cluster_nctaid.x", S::cluster_nctaid_x},
    Special{"%cluster_nctaid.y", S::cluster_nctaid_y},
    Special{"%cluster_nctaid.z", S::cluster_nctaid_z},
    Special{"%cluster_ctarank", S::cluster_ctarank},
    Special{"%cluster_nctarank", S::cluster_nctarank},
    Special{"%total_smem_size", S::total_smem_size},
    Special{"%dynamic_smem_size", S::dynamic_smem_size},
    Special{"%envreg1", S::envreg1},
    Special{"%envreg2", S::envreg2},
    Special{"%is_explicit_cluster", S::is_explicit_cluster},
    Special{"%smid", S::smid, false},
    Special{"%nsmid", S::nsmid, false},
    Special{"%gridid", S::gridid, false, Row::b64},
    Special{"%clock", S::clock, false},
    Special{"%clock_hi", S::clock_hi, false},
    Special{"%clock64", S::clock64, false, Row::b64},
    Special{"%globaltimer", S::globaltimer, false, Row::b64},
    Special{"%globaltimer_lo", S::globaltimer_lo, false},
    Special{"%globaltimer_hi", S::globaltimer_hi, false},
};

}  // namespace

std::optional<Special> find_special(std::string_view name) {
    const auto* at = std::find_if(specials.begin(), specials.end(),
                                  [&](const Special& special) { return special.name == name; });
    return at == specials.end() ? std::nullopt : std::optional(*at);
}

Special find_special(SpecialRegister which) {
    return *std::find_if(specials.begin(), specials.end(),
                         [&](const Special& special) { return special.which == which; });
}

}  // namespace kernelforge::emulator::decoding
