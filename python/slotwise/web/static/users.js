// Who uses the pool: groups as a tree with their quotas, and submitters.

import { API, ask } from "./api.js";
import { bar, element, table } from "./dom.js";
import { duration, number, several, share } from "./words.js";
import { address } from "./view.js";

const SUBMITTERS = 300;

export async function usersPage() {
  const [ads, groups, cycle] = await Promise.all([ask(`${API}/accounting?limit=${SUBMITTERS}`), ask(`${API}/groups`), ask(`${API}/cycle`).catch(() => ({}))]);
  const users = ads.filter((ad) => !ad.IsAccountingGroup).sort((one, other) => (other.WeightedResourcesUsed || 0) - (one.WeightedResourcesUsed || 0));
  const most = Math.max(1, ...users.map((ad) => ad.WeightedResourcesUsed || 0));
  const parts = [element("h1", {}, "Users and groups")];
  const named = groups.filter((ad) => ad.Name && ad.Name !== "<none>").sort((one, other) => one.Name.localeCompare(other.Name));
  const inCycle = new Map((cycle.groups || []).map((group) => [group.name, group]));
  if (named.length) parts.push(element("h2", {}, "Groups"), groupTree(named, inCycle));
  parts.push(element("h2", {}, "Users"), users.length ? table(several(users.length, "submitter", "submitters"), [
    { title: "Name", value: (ad) => element("a", { href: address("jobs", { owner: ad.Name.split("@")[0].split(".").pop() }) }, ad.Name) },
    { title: "In use", value: (ad) => bar(ad.WeightedResourcesUsed || 0, most, { of: "of the largest" }) },
    { title: "Cores", number: true, value: (ad) => number(ad.WeightedResourcesUsed || 0) },
    { title: "Priority (lower is better)", number: true, value: (ad) => (typeof ad.Priority === "number" ? ad.Priority.toFixed(2) : "") },
    { title: "Factor", number: true, value: (ad) => number(ad.PriorityFactor) },
    { title: "Usage so far (core hours)", number: true, value: (ad) => number(Math.round((ad.WeightedAccumulatedUsage || 0) / 3600)) },
    { title: "Last used", number: true, value: (ad) => (ad.LastUsageTime ? `${duration(Date.now() / 1000 - ad.LastUsageTime)} ago` : "") },
    { title: "Group", value: (ad) => (ad.AccountingGroup && ad.AccountingGroup !== "<none>" ? ad.AccountingGroup : "") },
  ], users) : element("p", {}, "Nobody has submitted jobs yet. ", element("a", { href: address("submit") }, "Submit some"), "."));
  return parts;
}

// Groups below those that they belong to; the use of a group is with that of the groups below it. All of it in cores,
// but for what the configuration says, which may be a part of the group above.
function groupTree(groups, inCycle) {
  const within = (ad) => groups.filter((other) => other.Name === ad.Name || other.Name.startsWith(`${ad.Name}.`)).reduce((sum, other) => sum + (other.WeightedResourcesUsed || 0), 0);
  const quota = (ad) => {
    const found = inCycle.get(ad.Name);
    // That of the group with those below it.
    return found && typeof found.subtree_quota === "number" ? found.subtree_quota : ad.SubtreeQuota || ad.EffectiveQuota || 0;
  };
  const configured = (ad) => {
    const found = inCycle.get(ad.Name);
    if (!found) return number(ad.ConfigQuota);
    const above = ad.Name.includes(".") ? ad.Name.slice(0, ad.Name.lastIndexOf(".")) : "the pool";
    return found.static ? several(ad.ConfigQuota, "core", "cores") : `${share(ad.ConfigQuota, 1)} of ${above}`;
  };
  return table("Accounting groups: use, with the groups below, of the quota (line); what is beyond it in another colour", [
    { title: "Name", value: (ad) => {
      const level = ad.Name.split(".").length - 1;
      const name = element("span", { class: "level" }, level ? ad.Name.slice(ad.Name.lastIndexOf(".") + 1) : ad.Name);
      name.style.paddingLeft = `${1.4 * level}em`;
      if (level) name.setAttribute("title", ad.Name);
      return name;
    } },
    { title: "Use and quota", value: (ad) => bar(within(ad), Math.max(quota(ad), within(ad)), { of: "cores", due: quota(ad), over: true }) },
    { title: "Cores in use", number: true, value: (ad) => number(within(ad)) },
    { title: "Quota (cores)", number: true, value: (ad) => number(quota(ad)) },
    { title: "Of it", number: true, value: (ad) => (quota(ad) > 0 ? `${Math.round(100 * within(ad) / quota(ad))}%` : "") },
    { title: "Configured", value: configured },
    { title: "Asked for (cores)", number: true, value: (ad) => number(ad.Requested) },
    { title: "Surplus", value: (ad) => ({ byquota: "shared by quota", regroup: "shared by all", no: "takes none" })[ad.SurplusPolicy] || ad.SurplusPolicy || "" },
  ], groups);
}
